//! The protocols of the vendors: pure codecs, from requests to bytes and from bytes to events. They do not read a
//! clock, open a socket or retry.

pub(crate) mod answer;
mod cache;
mod citations;
mod decoder;
mod delta_fast_path;
mod effort;
mod encoded;
pub(crate) mod fault;
mod json;
mod json_walk;
mod media;
mod names;
pub(crate) mod optional;
mod prefix;
mod reader;
pub(crate) mod retry_delay;
mod surrogates;
mod token_details;
mod tolerant;
mod tool_choice;

/// The names of the wires. Each wire has a module of this name. Use this for tests and benchmarks that run on every
/// wire.
///
/// ```
/// assert!(harness::wire::WIRES.contains(&"anthropic"));
/// ```
pub const WIRES: [&str; 3] = ["anthropic", "responses", "chat"];

pub mod anthropic;
pub mod chat;
pub mod responses;

pub(crate) use self::{decoder::AnswerDecoder, encoded::BodyPieces};
/// The error of an unsuccessful response. The body may have any format.
///
/// ```
/// let err = harness::wire::error_of(429, br#"{"error": {"message": "slow down", "code": 429}}"#);
/// assert_eq!((err.status(), err.message()), (Some(429), "slow down"));
/// ```
pub fn error_of(status: u16, body: &[u8]) -> harness_core::error::Error {
    fault::of_body(status, body)
}

pub use self::{
    decoder::Decoder, encoded::Encoded, media::ModelCapabilities, optional::RefusedMembers,
};
pub use harness_core::sse::{Record, SseParser};
