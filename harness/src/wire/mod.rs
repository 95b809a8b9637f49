//! The protocols of the vendors: pure codecs, from a request to bytes and from bytes to events.
//! Nothing here reads a clock, opens a socket or retries.

pub(crate) mod answer;
mod cache;
mod choice;
mod cited;
mod decoder;
mod effort;
mod encoded;
pub(crate) mod fault;
mod halves;
mod json;
mod media;
mod names;
pub(crate) mod optional;
mod reader;
mod scan;
mod shape;
mod tolerant;
pub(crate) mod wait;
mod walk;

/// The names of the wires: each has a module of this name. Tests and benchmarks that run on every wire iterate over them.
///
/// ```
/// assert!(harness::wire::WIRES.contains(&"anthropic"));
/// ```
pub const WIRES: [&str; 3] = ["anthropic", "responses", "chat"];

pub mod anthropic;
pub mod chat;
pub mod responses;

pub(crate) use self::{decoder::Dialect, encoded::BodyPieces};
/// The error of a response with an unsuccessful status. Its body may have any format.
///
/// ```
/// let err = harness::wire::error_of(429, br#"{"error": {"message": "slow down", "code": 429}}"#);
/// assert_eq!((err.status(), err.message()), (Some(429), "slow down"));
/// ```
pub fn error_of(status: u16, body: &[u8]) -> crate::error::Error {
    fault::of_body(status, body)
}

pub use self::{decoder::Decoder, encoded::Encoded, media::Takes, optional::RefusedMembers};
pub use crate::sse::{Record, SseParser};
