//! Bodies as OpenAI's Responses API sends them, for the loopback server and for decoders.
//! Made from the vendor's documentation of streaming events and of errors.

mod body;
mod error;
mod item;

pub use self::{
    body::{Body, body},
    error::error,
};
