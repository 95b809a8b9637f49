//! What is said: messages, the blocks they are made of, and the transcript they add up to.
//! It knows no vendor, no HTTP and no runtime.

mod arguments;
mod block;
mod citation;
mod image;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod message;
mod messages;
mod result;
mod strict;
mod transcript;
mod vendor;

pub use self::{
    arguments::{Arguments, Fingerprint},
    block::{Block, ReasoningBlock, TextBlock, ToolCall},
    citation::Citation,
    image::Image,
    message::{Message, Role},
    messages::{Iter, Messages},
    result::{CallOutcome, ToolContent, ToolResult},
    transcript::Transcript,
    vendor::VendorData,
};
pub(crate) use self::{
    arguments::{are_none, is_empty_object, same},
    strict::{is_strict, is_too_deep},
};
