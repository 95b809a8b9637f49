//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod agent;
mod client_anthropic;
mod early;
mod interrupt;
mod machine;
mod probe;
mod testing_scripted;
mod testing_server;
mod tidy;
mod transcript;
