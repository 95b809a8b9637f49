//! The only sockets of the library: one HTTP transport, and the providers that speak a wire over
//! it.

mod anthropic;
mod clocks;
mod credentials;
mod failure;
mod transport;

pub use self::{
    anthropic::{AnthropicBuilder, AnthropicProvider},
    clocks::Clocks,
};
