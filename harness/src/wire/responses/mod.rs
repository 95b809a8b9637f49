//! The Responses protocol of OpenAI, and of the servers that speak it too.
//!
//! See the vendor's reference of the Responses API and of its streaming events.

mod decode;
mod encode;
mod item;
mod walked;

pub use self::{
    decode::{Answer, decoder},
    encode::{Options, encode, encode_pieces},
};

/// The name under which vendor data of this wire is kept.
pub(crate) const WIRE: &str = "responses";
