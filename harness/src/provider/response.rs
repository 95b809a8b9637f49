//! A whole answer.

use serde::{Deserialize, Serialize};

use super::WantedItem;
use crate::message::Message;

/// Why the model stopped speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// It has said what it had to say.
    Complete,
    /// It waits for the results of its calls.
    ToolCalls,
    /// A limit of length cut it off. A call in it may be incomplete and is never run.
    Truncated,
    /// The vendor paused a long turn; the same conversation, sent again, goes on.
    Paused,
    /// The model or a filter refused. No call in it is run.
    Refused,
    /// It waits until the program has executed an item of this type, which the library cannot: it runs
    /// functions. No call in it is run. The item stays in the transcript, and the conversation can go on:
    /// the vendor is told that it was not executed, or the item is left out of what is sent where the
    /// vendor has no words for that.
    ///
    /// `chat.resume()` lets the model go on without the item, and `chat.send(..)` with the person's next
    /// words, which may say what the program has done in its place. The program cannot hand in an output
    /// of its own for the item. If it is to execute such things, leave the vendor's tool out of
    /// [`Settings::extra`](super::Settings::extra) and give the agent a function with `#[tool]` that does
    /// the same: its calls are approved, ordered and answered as all others.
    Unsupported(WantedItem),
}

impl StopReason {
    /// Whether the calls of the answer may run.
    pub fn lets_calls_run(self) -> bool {
        matches!(self, Self::Complete | Self::ToolCalls)
    }
}

/// Tokens counted. What is not known is `None`, never 0.
///
/// The meaning is the same for every vendor: `input` includes what was read from or written to a
/// cache, and `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All tokens of the request, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// The part of `input` that was read from the vendor's prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// The part of `input` that was written to the vendor's prompt cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// All tokens of the answer, thinking included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of `output` that was thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// The part of `input` that the vendor read to sum up the conversation before it answered. It
    /// is paid for, but the answer was given without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<u64>,
}

impl Usage {
    /// Adds the tokens of another answer. An unknown number counts as none, so a sum over answers
    /// of which some are unknown is a lower bound.
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

    /// The tokens beyond those of a part.
    pub(crate) fn without(&self, part: &Self) -> Self {
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

    /// Whether no tokens are known.
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { input, cache_read, cache_write, output, reasoning, compaction } = self;
        let parts = [input, cache_read, cache_write, output, reasoning, compaction];
        parts.iter().all(|part| part.unwrap_or(0) == 0)
    }
}

/// A whole answer of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderResponse {
    /// What the model said; `None` if it said nothing that can be kept.
    pub message: Option<Message>,
    /// Why it stopped.
    pub stop: StopReason,
    /// Tokens counted, as far as they are known.
    pub usage: Usage,
    /// The vendor's id of the answer.
    pub id: Option<String>,
    /// The model that answered, as the vendor names it.
    pub model: Option<String>,
    /// Who answered, where several could.
    pub provider: Option<String>,
}
