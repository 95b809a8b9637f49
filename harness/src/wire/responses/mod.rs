//! The Responses protocol of OpenAI, and of the servers that speak it too.
//!
//! See the vendor's reference of the Responses API and of its streaming events.

mod decode;
mod encode;
mod item;
mod summary;
mod walked;

pub use self::{
    decode::{Answer, decoder, summary_decoder},
    encode::{Options, encode, encode_pieces},
    summary::encode_summary,
};

/// The name under which vendor data of this wire is kept.
pub(crate) const WIRE: &str = "responses";

/// What the answer of the vendor is called that holds a summary of its own.
const SUMMARY: &str = "response.compaction";
