//! The events of an answer.

use std::time::Duration;

use crate::message::{Citation, Media, VendorData};

use super::{StopReason, Usage};

/// One event of a provider's answer.
///
/// `block` is the index of a block of the message, from 0, in the vendor's order. Events with the same index belong to
/// the same block. The indexes may have gaps.
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
    /// A piece of text, to be appended to the block's text.
    TextDelta {
        /// The index of the block.
        block: u32,
        /// The text, never empty.
        text: String,
    },
    /// A source of this block's text. The event follows the text.
    Citation {
        /// The index of the text's block.
        block: u32,
        /// The source, boxed because it is large and rare.
        citation: Box<Citation>,
    },
    /// A picture that the model generated.
    Image {
        /// The index of the block, which contains nothing else.
        block: u32,
        /// The picture.
        image: Media,
    },
    /// Audio that the model generated, complete in one event. Its transcript arrives as text.
    Audio {
        /// The index of the block, which contains nothing else.
        block: u32,
        /// The audio.
        audio: Media,
    },
    /// A piece of thinking, to be appended to the block's thinking.
    ReasoningDelta {
        /// The index of the block.
        block: u32,
        /// The text, never empty.
        text: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The index of the block.
        block: u32,
        /// The id from the vendor. An earlier call may have the same id. The id is empty if the vendor sends no id. The
        /// [`Accumulator`](super::Accumulator) detects repeated calls, and creates the id that results refer to.
        id: String,
        /// The complete name; empty if the vendor never sent one.
        name: String,
    },
    /// A piece of the arguments' JSON text, to be appended to the earlier pieces.
    ToolCallDelta {
        /// The index of the block.
        block: u32,
        /// The text, never empty.
        json: String,
    },
    /// The complete JSON text of the arguments, which replaces all earlier deltas.
    ToolCallArguments {
        /// The index of the block.
        block: u32,
        /// The complete text.
        json: String,
    },
    /// The arguments of the call are complete. A call that only reads may run now; any other call may run only once the
    /// answer is complete.
    ToolCallEnd {
        /// The index of the block.
        block: u32,
    },
    /// Data that later requests must send back with this block. If no other event has this block index, the data is a
    /// block of its own.
    Vendor {
        /// The index of the block.
        block: u32,
        /// The kind of the block. Thinking that has a signature but no text needs this field.
        part: VendorPart,
        /// The data. Later data for the same block replaces earlier data.
        data: VendorData,
    },
    /// The token counts so far. The known counts of each event replace earlier counts.
    UsageSoFar(Usage),
    /// An attempt failed, and the next attempt follows after a wait. If a part of the answer was emitted, a
    /// [`StreamEvent::Discarded`] event has already withdrawn it.
    ///
    /// The wait begins when the event is emitted. If the reader of the stream polls for the next event only after the
    /// wait is over, the next attempt starts at that poll.
    Retrying {
        /// The number of the next attempt in this call of the provider. The first attempt has the number 1.
        attempt: u32,
        /// The maximum number of attempts in this call.
        of: u32,
        /// The length of the wait.
        wait: Duration,
        /// The time for which the server wants no requests, if it refused the request because of overload or too many
        /// requests (such as 429). Zero if the server stated no time. `None` for any other failure.
        refused: Option<Duration>,
        /// The failure, as text for a person.
        cause: String,
    },
    /// A provider has failed, and the request goes to the next provider.
    FallingBack {
        /// The provider that failed.
        from: String,
        /// The provider that gets the request next.
        to: String,
        /// The failure, as text for a person.
        cause: String,
    },
    /// The server refused a member of the request by its name, and the program had not set this member. The provider
    /// has sent the request again without the member, and omits the member from later requests. If the member is a
    /// limit of tokens, the provider uses its other name instead.
    ParameterDropped {
        /// The name of the member, such as `stream_options`.
        parameter: String,
        /// The server's refusal, as text for a person.
        cause: String,
    },
    /// The server refused the reasoning of earlier answers, because the reasoning was generated after other
    /// instructions, tools or messages, or by another model. The provider has sent the request again without this
    /// reasoning.
    ReasoningRefused {
        /// The server's refusal, as text for a person.
        cause: String,
    },
    /// The provider that answers, if several providers were possible.
    AnsweredBy {
        /// The provider's name.
        provider: String,
        /// The model of this provider.
        model: String,
    },
    /// The answer so far is void, because it broke off. A new answer begins.
    Discarded {
        /// The failure, as text for a person.
        cause: String,
    },
    /// The answer is complete. This is the last event.
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
    /// Vendor data that is a block of its own.
    Opaque,
}

impl StreamEvent {
    /// Whether the event contains a part of the answer. Before the first such event, the reader of the stream has seen
    /// nothing of the answer, so a failed request can be repeated at the same or another provider.
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
        // Events are small, because each piece of an answer is an event.
        assert!(size_of::<StreamEvent>() <= 104, "{}", size_of::<StreamEvent>());
    }
}
