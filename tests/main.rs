//! Behaviour, through the public API. Each file is one part of the library or one promise.

mod client_anthropic;
mod corpus;
mod machine;
mod testing_scripted;
mod testing_server;
mod tidy;
mod transcript;
