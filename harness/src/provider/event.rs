//! What a provider says while it answers.

use crate::message::VendorData;

use super::{StopReason, Usage};

/// One thing that a provider says while it answers.
///
/// `block` counts the blocks of the message from 0 in the order in which the vendor numbers
/// them; what carries the same number belongs together. Numbers may be left out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The answer has begun.
    Started {
        /// The vendor's id of the answer.
        id: Option<String>,
        /// The model that answers, as the vendor names it.
        model: Option<String>,
    },
    /// More words.
    TextDelta {
        /// The block.
        block: u32,
        /// The words, never empty.
        text: String,
    },
    /// More thinking.
    ReasoningDelta {
        /// The block.
        block: u32,
        /// The words, never empty.
        text: String,
    },
    /// The model asks for a tool.
    ToolCallStart {
        /// The block.
        block: u32,
        /// The id that the result will refer to. If the vendor gives none, it is empty, and the
        /// accumulator makes one.
        id: String,
        /// The name, whole.
        name: String,
    },
    /// More of the arguments' JSON text.
    ToolCallDelta {
        /// The block.
        block: u32,
        /// The text, never empty.
        json: String,
    },
    /// The call's arguments are all there. It may run only once the answer has completed, unless
    /// it only reads.
    ToolCallEnd {
        /// The block.
        block: u32,
    },
    /// What the vendor wants back with this block. If no other event names the block, it is a
    /// block of its own.
    Vendor {
        /// The block.
        block: u32,
        /// What the block is, so that a proof without words is still known as reasoning.
        part: VendorPart,
        /// The data. A later one for the same block replaces an earlier one.
        data: VendorData,
    },
    /// Tokens counted so far; each replaces the one before.
    UsageSoFar(Usage),
    /// The answer is complete. It is the last event.
    Completed {
        /// Why the model stopped.
        stop: StopReason,
        /// Tokens counted, as far as they are known.
        usage: Usage,
    },
}

/// What kind of block vendor data belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorPart {
    /// Words.
    Text,
    /// Thinking.
    Reasoning,
    /// A call.
    ToolCall,
    /// Something that only this vendor knows.
    Opaque,
}
