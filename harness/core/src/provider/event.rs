//! The events of an answer.

use std::time::Duration;

use crate::message::{Citation, Media, VendorData};

use super::{StopReason, Usage};

/// One event of a provider's answer.
///
/// `block` is the index of a block of the message, from 0, in the vendor's order. Events with the
/// same index belong to the same block. Indexes may be skipped.
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
    /// More text.
    TextDelta {
        /// The block.
        block: u32,
        /// The text, never empty.
        text: String,
    },
    /// A source of this block's text. It follows the text.
    Citation {
        /// The block of the text.
        block: u32,
        /// The source, boxed because it is large and rare.
        citation: Box<Citation>,
    },
    /// A picture that the model generated.
    Image {
        /// The block, which contains nothing else.
        block: u32,
        /// The picture.
        image: Media,
    },
    /// Audio that the model generated, complete. Its transcript arrives as text.
    Audio {
        /// The block, which contains nothing else.
        block: u32,
        /// The audio.
        audio: Media,
    },
    /// More thinking.
    ReasoningDelta {
        /// The block.
        block: u32,
        /// The text, never empty.
        text: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The block.
        block: u32,
        /// The id from the vendor. It may be that of an earlier call, or empty if the vendor gives
        /// none. The [`Accumulator`](super::Accumulator) decides whether the call is a repeat, and
        /// makes the id that results refer to.
        id: String,
        /// The complete name; empty if the vendor never gave one.
        name: String,
    },
    /// More of the JSON text of the arguments.
    ToolCallDelta {
        /// The block.
        block: u32,
        /// The text, never empty.
        json: String,
    },
    /// The complete JSON text of the arguments. It replaces all earlier deltas.
    ToolCallArguments {
        /// The block.
        block: u32,
        /// The complete text.
        json: String,
    },
    /// The arguments of the call are complete. Unless the call only reads, it may run only once the
    /// answer is complete.
    ToolCallEnd {
        /// The block.
        block: u32,
    },
    /// Data that the vendor wants back with this block. If no other event names the block, the data
    /// is a block of its own.
    Vendor {
        /// The block.
        block: u32,
        /// The kind of the block. Thinking with a signature but without text is recognized by it.
        part: VendorPart,
        /// The data. Later data for the same block replaces earlier data.
        data: VendorData,
    },
    /// The token counts so far. Each event replaces the one before.
    UsageSoFar(Usage),
    /// A try failed, and another one follows after a wait. Nothing of the answer has been emitted
    /// yet, or it has been discarded.
    ///
    /// The wait begins when the event is emitted. If a wrapping provider asks for the next event
    /// later than the end of the wait, the next try is made then.
    Retrying {
        /// The number of the next try in this call of the provider. The first try is 1.
        attempt: u32,
        /// The maximum number of tries in this call.
        of: u32,
        /// The length of the wait.
        wait: Duration,
        /// Set if the server refused the request because of overload or too many requests (such as
        /// 429): how long it asks for no requests, or zero if it did not say.
        refused: Option<Duration>,
        /// The failure, in words.
        cause: String,
    },
    /// A provider has failed, and another one is asked.
    FallingBack {
        /// The provider that failed.
        from: String,
        /// The provider that is asked now.
        to: String,
        /// The failure, in words.
        cause: String,
    },
    /// The server has refused a member of the request by its name. The request was sent again without it (or with the
    /// other name, for the limit of tokens), and so are later requests of this provider. It is none that the program has
    /// asked for.
    ParameterDropped {
        /// The name of the member, such as `stream_options`.
        parameter: String,
        /// The refusal, in words.
        cause: String,
    },
    /// The server has refused the reasoning of earlier answers: it was made behind other instructions, tools or messages, or by
    /// another model. The request was sent again without it.
    ReasoningRefused {
        /// The refusal, in words.
        cause: String,
    },
    /// The provider that answers, if several were possible.
    AnsweredBy {
        /// The provider's name.
        provider: String,
        /// The model that it uses.
        model: String,
    },
    /// The answer so far does not count: it broke off, and a new one begins.
    Discarded {
        /// The failure, in words.
        cause: String,
    },
    /// The answer is complete. It is the last event.
    Completed {
        /// Why the model stopped.
        stop: StopReason,
        /// The known token counts, boxed so that all events are small.
        usage: Box<Usage>,
    },
}

/// The kind of block that vendor data belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VendorPart {
    /// Text.
    Text,
    /// Thinking.
    Reasoning,
    /// A call.
    ToolCall,
    /// A block that only this vendor understands.
    Opaque,
}

impl StreamEvent {
    /// Whether a reader has learned anything of the answer from the event. Before the first such
    /// event, the request can be repeated with the same or another provider without anyone
    /// noticing.
    #[doc(hidden)]
    pub fn is_said(&self) -> bool {
        match self {
            Self::Started { .. }
            | Self::UsageSoFar(_)
            | Self::Retrying { .. }
            | Self::FallingBack { .. }
            | Self::ParameterDropped { .. }
            | Self::ReasoningRefused { .. }
            | Self::AnsweredBy { .. }
            | Self::Discarded { .. } => false,
            Self::TextDelta { .. }
            | Self::Citation { .. }
            | Self::Image { .. }
            | Self::Audio { .. }
            | Self::ReasoningDelta { .. }
            | Self::ToolCallStart { .. }
            | Self::ToolCallDelta { .. }
            | Self::ToolCallArguments { .. }
            | Self::ToolCallEnd { .. }
            | Self::Vendor { .. }
            | Self::Completed { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamEvent;

    #[test]
    fn an_event_is_small() {
        // Each piece of an answer is an event, and is moved several times.
        assert!(size_of::<StreamEvent>() <= 104, "{}", size_of::<StreamEvent>());
    }
}
