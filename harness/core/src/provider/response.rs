//! A whole answer, its token counts, and why it stopped.

use serde::{Deserialize, Serialize};

use super::WantedItem;
use crate::{
    error::{Error, ErrorKind},
    message::Message,
};

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is finished.
    Complete,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// A length limit cut the answer off. A call in this answer may be incomplete and is never run.
    Truncated,
    /// The vendor paused a long turn. Sending the same conversation again continues the turn.
    Paused,
    /// The model or a filter refused to answer. No call in this answer is run.
    Refused,
    /// The model waits until the program has executed an item of this type. The library cannot execute such an item: it
    /// runs only functions. No call in the answer is run. The item stays in the transcript, and the conversation can go
    /// on: later requests report to the vendor that the item was not executed, or omit the item if the vendor defines
    /// no such report.
    ///
    /// `chat.resume()` lets the model continue without the item. `chat.send(..)` continues with the user's next
    /// message, which may say what the program has done instead. The program cannot supply an output for the item. To
    /// execute such items, remove the vendor's tool from [`Settings::extra`](super::Settings::extra), and give the
    /// agent a function with `#[tool]` that does the same work. The calls of this function are approved, ordered and
    /// answered like all other calls.
    Unsupported(WantedItem),
}

impl StopReason {
    /// Whether the calls of the answer may run.
    pub fn lets_calls_run(self) -> bool {
        matches!(self, Self::Complete | Self::ToolCalls)
    }
}

/// Token counts. An unknown count is `None`, never 0.
///
/// The meaning is the same for every vendor: `input` includes tokens read from or written to a
/// cache, and `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All tokens of the request, including cached ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// The part of `input` that was read from the vendor's prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// The part of `input` that was written to the vendor's prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// All tokens of the answer, including thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of `output` that was thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// The part of `input` that the vendor used to summarize the conversation before it answered. These tokens are
    /// billed, but the model did not see them when it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<u64>,
}

impl Usage {
    /// Adds the tokens of another answer. Unknown counts are skipped. So if a count is unknown, the sum is a lower
    /// bound.
    pub fn add(&mut self, other: &Self) {
        fn sum(mine: &mut Option<u64>, other: Option<u64>) {
            if let Some(other) = other {
                *mine = Some(mine.unwrap_or(0).saturating_add(other));
            }
        }
        let Self { input, cache_read, cache_write, output, reasoning, compaction } = other;
        sum(&mut self.input, *input);
        sum(&mut self.cache_read, *cache_read);
        sum(&mut self.cache_write, *cache_write);
        sum(&mut self.output, *output);
        sum(&mut self.reasoning, *reasoning);
        sum(&mut self.compaction, *compaction);
    }

    /// Replaces the counts that a later report contains. All other counts stay.
    pub fn update(&mut self, later: &Self) {
        let Self { input, cache_read, cache_write, output, reasoning, compaction } = later;
        self.input = update_count(self.input, *input);
        self.cache_read = update_count(self.cache_read, *cache_read);
        self.cache_write = update_count(self.cache_write, *cache_write);
        self.output = update_count(self.output, *output);
        self.reasoning = update_count(self.reasoning, *reasoning);
        self.compaction = update_count(self.compaction, *compaction);
    }

    /// These counts minus the counts of `part`.
    #[doc(hidden)]
    pub fn without(&self, part: &Self) -> Self {
        let rest = |whole: Option<u64>, part: Option<u64>| {
            whole.map(|whole| whole.saturating_sub(part.unwrap_or(0)))
        };
        let Self { input, cache_read, cache_write, output, reasoning, compaction } = part;
        Self {
            input: rest(self.input, *input),
            cache_read: rest(self.cache_read, *cache_read),
            cache_write: rest(self.cache_write, *cache_write),
            output: rest(self.output, *output),
            reasoning: rest(self.reasoning, *reasoning),
            compaction: rest(self.compaction, *compaction),
        }
    }

    /// Whether every count is unknown or 0.
    #[doc(hidden)]
    pub fn is_nothing(&self) -> bool {
        let Self { input, cache_read, cache_write, output, reasoning, compaction } = self;
        let parts = [input, cache_read, cache_write, output, reasoning, compaction];
        parts.iter().all(|part| part.unwrap_or(0) == 0)
    }
}

/// A count after a later report. A known count of an answer never becomes zero, because the last report of some servers
/// has zeros in place of earlier counts.
pub fn update_count(known: Option<u64>, later: Option<u64>) -> Option<u64> {
    later.filter(|later| *later > 0 || known.is_none()).or(known)
}

/// A whole answer of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderResponse {
    /// The model's message; `None` if the answer contains nothing to keep.
    pub message: Option<Message>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The known token counts.
    pub usage: Usage,
    /// The vendor's id of the answer.
    pub id: Option<String>,
    /// The model that answered, as the vendor names it.
    pub model: Option<String>,
    /// The name of the provider that answered, if several providers were possible.
    pub provider: Option<String>,
}

/// The error of a stream that ended before the answer was complete.
pub fn cut_off() -> Error {
    Error::new(
        ErrorKind::CutOff,
        "the answer ended before it was complete: the connection was closed in the middle",
    )
}
