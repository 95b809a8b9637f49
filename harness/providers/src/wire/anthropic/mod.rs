//! The Messages protocol of Anthropic and compatible servers.
//!
//! See the vendor's documentation of the Messages API and of its streaming.

mod block;
mod common_event;
mod decode;
mod encode;
mod thinking;
mod tools;

pub use self::{
    decode::{AnthropicAnswer, decoder, summary_decoder},
    encode::{Options, encode, encode_pieces},
};
pub(crate) use self::{
    encode::{binding, check},
    tools::adds_tools,
};

/// The name under which vendor data of this protocol is stored.
pub(crate) const WIRE: &str = "anthropic";

/// The type of a block with the vendor's own summary.
const SUMMARY: &str = "compaction";
