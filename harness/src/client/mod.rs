//! The ready providers, over the only HTTP transport of the library. Feature `sockets`, on by default.

mod address;
mod answer;
mod anthropic;
mod arrival;
mod chat_completions;
mod choose;
mod clocks;
mod connection;
mod credentials;
mod failure;
mod lessons;
mod line;
mod openai;
mod retry_after;
mod setup;
mod tap;
#[cfg(feature = "async-openai")]
mod template;
mod tls;
mod transport;
mod vendors;

pub use self::{
    anthropic::{AnthropicBuilder, AnthropicProvider},
    chat_completions::{ChatCompletionsBuilder, ChatCompletionsProvider},
    choose::provider_from_env,
    clocks::Clocks,
    openai::{OpenAIBuilder, OpenAIProvider},
    tap::Tap,
};
