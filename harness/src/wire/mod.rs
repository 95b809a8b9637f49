//! How providers are spoken to: pure codecs, from a request to bytes and from bytes to events.
//! Nothing here reads a clock, opens a socket or tries again.

pub(crate) mod answer;
mod cache;
mod cited;
mod decoder;
mod encoded;
pub(crate) mod fault;
mod halves;
mod json;
mod media;
mod names;
mod reader;
mod scan;
mod shape;
mod sse;
mod tolerant;
pub(crate) mod wait;
mod walk;

pub mod anthropic;
pub mod chat;
pub mod responses;

pub(crate) use self::{decoder::Dialect, encoded::Pieces};
/// The error of an answer with a status that is no success, whatever the shape of its body.
///
/// ```
/// let err = harness::wire::error_of(429, br#"{"error": {"message": "slow down", "code": 429}}"#);
/// assert_eq!((err.status(), err.message()), (Some(429), "slow down"));
/// ```
pub fn error_of(status: u16, body: &[u8]) -> crate::error::Error {
    fault::of_body(status, body)
}

pub use self::{
    decoder::Decoder,
    encoded::Encoded,
    media::Takes,
    sse::{Record, SseParser},
};
