//! The only sockets of the library: one HTTP transport, and the providers that speak a wire over
//! it.

mod address;
mod answer;
mod anthropic;
mod arrival;
mod choose;
mod clocks;
mod connection;
mod credentials;
mod failure;
mod local;
mod openai;
mod setup;
#[cfg(feature = "async-openai")]
mod template;
mod tls;
mod transport;
mod vendors;

pub use self::{
    anthropic::{AnthropicBuilder, AnthropicProvider},
    choose::provider_from_env,
    clocks::Clocks,
    local::{LocalBuilder, LocalProvider},
    openai::{OpenAIBuilder, OpenAIProvider},
};
