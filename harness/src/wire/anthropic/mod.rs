//! The Messages protocol of Anthropic and compatible servers.
//!
//! See the vendor's documentation of the Messages API and of its streaming.

mod block;
mod decode;
mod encode;
mod thinking;
mod walked;

pub(crate) use self::encode::check;
pub use self::{
    decode::{Answer, decoder, summary_decoder},
    encode::{Options, encode, encode_pieces},
};

/// The wire name of this protocol's vendor data.
pub(crate) const WIRE: &str = "anthropic";

/// The type of a block with the vendor's own summary.
const SUMMARY: &str = "compaction";
