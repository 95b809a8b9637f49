//! Bodies in the format of OpenAI's Responses API, for the loopback server and for decoders.
//! Source: the vendor's documentation of streaming events and of errors.

mod body;
mod error;
mod item;

pub use self::{
    body::{ResponsesBody, body},
    error::error,
};
