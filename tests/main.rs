//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod accumulate;
mod agent;
mod client_anthropic;
mod client_providers;
mod corpus;
mod decoded;
mod early;
mod interrupt;
mod limits;
mod machine;
mod offline;
mod order;
mod probe;
mod side_effects;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod tidy;
mod toolbox;
mod transcript;
mod wire_anthropic;
mod wire_chat;
mod wire_encode;
mod wire_encode_random;
mod wire_responses;
mod wire_sse;
