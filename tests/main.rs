//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod accumulate;
mod agent;
mod client_anthropic;
mod corpus;
mod early;
mod guard;
mod interrupt;
mod limits;
mod machine;
mod offline;
mod order;
mod probe;
mod quickstart;
mod side_effects;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod tidy;
mod tool_macro;
mod toolbox;
mod transcript;
