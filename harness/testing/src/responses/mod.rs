//! Response bodies in the format of OpenAI's Responses API, for the loopback server and for tests
//! of decoders. Source: the vendor's documentation of streaming events and errors.

mod body;
mod error;
mod item;

pub use self::{
    body::{ResponsesBody, body},
    error::error,
};
