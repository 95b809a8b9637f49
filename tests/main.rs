//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod accumulate;
mod agent;
mod client_anthropic;
mod clocks;
mod corpus;
mod early;
mod fallback;
mod interrupt;
mod limits;
mod machine;
mod offline;
mod order;
mod probe;
mod quickstart;
mod resume;
mod retry;
mod side_effects;
mod testing_bodies;
mod testing_scripted;
mod testing_server;
mod throttle;
mod tidy;
mod toolbox;
mod transcript;
