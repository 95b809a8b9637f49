//! What a provider says while it answers.

use std::time::Duration;

use crate::message::{Citation, Media, VendorData};

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
    /// Where words of this block come from. It stands after them.
    Citation {
        /// The block of the words.
        block: u32,
        /// The source. In a box, since it is larger than all other events, and rare.
        citation: Box<Citation>,
    },
    /// A picture that the model has made.
    Image {
        /// The block, which is one of its own.
        block: u32,
        /// The picture.
        image: Media,
    },
    /// Sound that the model has made, whole. Its words come as text.
    Audio {
        /// The block, which is one of its own.
        block: u32,
        /// The sound.
        audio: Media,
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
        /// The id as the vendor gives it, which may be that of an earlier call; empty if it gives
        /// none. The [`Accumulator`](super::Accumulator) tells a repeat from another call and makes
        /// the id that results refer to.
        id: String,
        /// The name, whole; empty if the vendor never gave one.
        name: String,
    },
    /// More of the arguments' JSON text.
    ToolCallDelta {
        /// The block.
        block: u32,
        /// The text, never empty.
        json: String,
    },
    /// The arguments' JSON text as it really is: what came of it before does not count.
    ToolCallArguments {
        /// The block.
        block: u32,
        /// The text, whole.
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
    /// A try failed, and another one follows after a wait. Nothing of the answer has been said
    /// yet, or what was said has been taken back.
    ///
    /// The wait runs from the moment at which the event is said. A provider around this one may ask
    /// for the next event later than that, and the try is then made later.
    Retrying {
        /// The number of the try that follows in this call of the provider; the first one is 1.
        attempt: u32,
        /// How many there may be in this call.
        of: u32,
        /// How long it waits.
        wait: Duration,
        /// How long the server wants nobody to ask, if it refused because it gets too much (429, or
        /// overloaded): nothing at all if it did not say how long.
        refused: Option<Duration>,
        /// What failed, in words.
        cause: String,
    },
    /// A provider is down, and another one is asked.
    FallingBack {
        /// Who is down.
        from: String,
        /// Who is asked now.
        to: String,
        /// What failed, in words.
        cause: String,
    },
    /// Who gives the answer, where several could.
    AnsweredBy {
        /// The provider's name.
        provider: String,
        /// The model that it asks.
        model: String,
    },
    /// What was said of this answer so far does not count: it broke off, and begins again.
    Discarded {
        /// What failed, in words.
        cause: String,
    },
    /// The answer is complete. It is the last event.
    Completed {
        /// Why the model stopped.
        stop: StopReason,
        /// Tokens counted, as far as they are known. In a box, so that all events are small.
        usage: Box<Usage>,
    },
}

/// What kind of block vendor data belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl StreamEvent {
    /// Whether a reader has learned something of the answer from it. Until then the same question
    /// can be asked again, of the same provider or of another one, and nobody is the wiser.
    pub(crate) fn is_said(&self) -> bool {
        match self {
            Self::Started { .. }
            | Self::UsageSoFar(_)
            | Self::Retrying { .. }
            | Self::FallingBack { .. }
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
        // Each word of an answer is one of these, and is moved several times.
        assert!(size_of::<StreamEvent>() <= 104, "{}", size_of::<StreamEvent>());
    }
}
