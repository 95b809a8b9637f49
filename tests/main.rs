//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod accumulate;
mod agent;
mod chaos;
mod client_anthropic;
mod client_live;
mod client_providers;
mod clocks;
mod context_full;
mod corpus;
mod decoded;
mod early;
mod fallback;
mod guard;
mod interrupt;
#[cfg(target_os = "linux")]
mod left_over;
mod limits;
mod machine;
mod offline;
mod order;
mod probe;
#[cfg(target_os = "linux")]
mod process;
mod quickstart;
mod resume;
mod retry;
mod side_effects;
mod soak;
mod strict;
#[cfg(target_os = "linux")]
mod terminal;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod throttle;
mod tidy;
mod tool_macro;
mod tool_schema;
mod toolbox;
mod trace;
mod transcript;
mod verdicts;
mod wire_anthropic;
mod wire_chat;
mod wire_encode;
mod wire_encode_random;
mod wire_responses;
mod wire_sse;
