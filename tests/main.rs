//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod accumulate;
mod agent;
mod client_anthropic;
mod corpus;
mod early;
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
mod side_effects;
mod strict;
#[cfg(target_os = "linux")]
mod terminal;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod tidy;
mod toolbox;
mod transcript;
