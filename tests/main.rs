//! Behaviour, through the public API.

mod testing_scripted;
mod testing_server;
