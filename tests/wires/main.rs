//! Wires: what is sent and how answers are read, each fact of a protocol, and each known deviation of servers.

mod accumulate;
mod answer_media;
mod any_answer;
mod content;
mod content_names;
mod corpus;
mod empty_first;
mod handmade;
mod repeats;
mod strict_turns;
mod unsupported_items;
mod wire_alike;
mod wire_anthropic;
mod wire_any_form;
mod wire_call_proofs;
mod wire_chat;
mod wire_encode;
mod wire_encode_random;
mod wire_halves;
mod wire_hostile;
mod wire_limits;
mod wire_pictures;
mod wire_responses;
mod wire_sse;
mod wire_strict;

use harness_test_support::{decoded, probe, setting, times};
