//! Messages, their blocks, and the transcript of a conversation. This module depends on no vendor,
//! no HTTP and no runtime.

mod arguments;
mod block;
mod citation;
mod link;
mod media;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod message;
mod messages;
mod result;
mod results;
mod safe_text;
mod saved_block;
mod strict;
mod surrogates;
mod transcript;
mod vendor;

#[doc(hidden)]
pub use self::{
    arguments::same,
    result::ProgramValue,
    strict::unreadable_reason,
    surrogates::{replace_lone_surrogates, without_lone_surrogates},
};
pub use self::{
    arguments::{Arguments, Fingerprint},
    block::{Block, ReasoningBlock, TextBlock, ToolCall},
    citation::Citation,
    link::Link,
    media::Media,
    message::{Message, Role},
    messages::{Iter, Messages},
    result::{CallOutcome, ToolContent, ToolResult},
    results::Results,
    transcript::Transcript,
    vendor::VendorData,
};
pub use self::{
    arguments::{are_none, is_empty_object},
    media::{MediaKind, MediaSource, is_base64},
    result::CUT,
    safe_text::in_line,
    strict::is_strict,
};
pub(crate) use self::{
    arguments::{sorted_members, sorted_names},
    strict::is_deeper,
};
pub use self::{
    safe_text::is_unseen,
    strict::{MAX_VALUES, count_values},
};
