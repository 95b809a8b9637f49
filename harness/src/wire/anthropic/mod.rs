//! The Messages protocol of Anthropic, and of the servers that speak it too.
//!
//! See the vendor's documentation of the Messages API and of its streaming.

mod block;
mod decode;
mod encode;
mod thinking;
mod walked;

pub use self::{
    decode::{Answer, decoder, summary_decoder},
    encode::{Options, encode, encode_pieces},
};

/// The name under which vendor data of this wire is kept.
pub(crate) const WIRE: &str = "anthropic";

/// The type of a block that is a summary of the vendor's own.
const SUMMARY: &str = "compaction";
