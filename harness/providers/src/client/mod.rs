//! The ready-made providers, over the only HTTP transport of the library. Feature `sockets`, on by default.

mod address;
mod answer;
mod anthropic;
mod chat_completions;
mod connection;
mod credentials;
mod failure;
mod from_env;
mod in_flight_request;
mod openai;
mod recorder;
mod response_kind;
mod retry_after;
mod server_quirks;
mod setup;
#[cfg(feature = "async-openai")]
mod template;
mod timeouts;
mod tls;
mod transport;
mod vendors;

pub use self::{
    anthropic::{AnthropicBuilder, AnthropicProvider},
    chat_completions::{ChatCompletionsBuilder, ChatCompletionsProvider},
    from_env::provider_from_env,
    openai::{OpenAIBuilder, OpenAIProvider},
    recorder::Tap,
    timeouts::Timeouts,
};
