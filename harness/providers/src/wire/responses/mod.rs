//! The Responses protocol of OpenAI and compatible servers.
//!
//! See the vendor's reference of the Responses API and of its streaming events.

mod common_event;
mod decode;
mod encode;
mod item;
mod summary;
mod tools;

pub(crate) use self::encode::{binding, check};
pub use self::{
    decode::{ResponsesAnswer, decoder, summary_decoder},
    encode::{Options, encode, encode_pieces},
    summary::encode_summary,
};

/// The name under which vendor data of this protocol is stored.
pub(crate) const WIRE: &str = "responses";

/// The type of an answer with the vendor's own summary.
const SUMMARY: &str = "response.compaction";
