//! How providers are spoken to: pure codecs, from a request to bytes and from bytes to events.
//! Nothing here reads a clock, opens a socket or tries again.

mod decoder;
pub(crate) mod fault;
mod json;
mod names;
mod sse;
mod tolerant;

pub mod anthropic;

pub(crate) use self::decoder::Dialect;
pub use self::{
    decoder::Decoder,
    sse::{Record, SseParser},
};
