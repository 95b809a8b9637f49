//! How a run ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use harness_core::{journal::LimitKind, provider::WantedItem};

/// How a run ended.
///
/// As JSON, an outcome is its name in snake case, such as `"answered"`. A limit is `{"limit": "turns"}`, and an
/// item that cannot be executed is `{"unsupported": "computer_call"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The model gave its final answer.
    Answered,
    /// The run has reached this limit and was stopped.
    Limit(LimitKind),
    /// The model's answer was cut off at the limit of its length.
    Truncated,
    /// The model has refused to answer, or a filter of the vendor has stopped the answer.
    Refused,
    /// The model's last attempt at an answer was not [what the program wanted](crate::Run::answer): see
    /// [`Stopped::faults`](crate::Stopped::faults).
    Unfit,
    /// The model waits until the program has executed an item of this type. The library cannot execute such
    /// items. [`Chat::resume`](crate::Chat::resume) sends the model a notice that the item was not executed,
    /// and continues.
    Unsupported(WantedItem),
    /// The program stopped the run.
    Cancelled,
    /// Calls wait for a decision or an answer from outside of the run: see
    /// [`Chat::waiting`](crate::Chat::waiting). [`Chat::resume`](crate::Chat::resume) continues the run.
    Waiting,
    /// A call was denied, and the permissions end the run after a denial.
    Denied,
    /// Something that the run needs has failed: see [`Stopped::error`](crate::Stopped::error).
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "the model answered",
            Self::Limit(LimitKind::UnknownCost) => {
                "nobody knows what the model costs, and that is refused"
            }
            Self::Limit(limit) => {
                return write!(
                    f,
                    "the limit of {limit} was reached before the model had an answer"
                );
            }
            Self::Truncated => {
                "the answer was cut off by a limit of length: `max_tokens` of the provider, or the most \
                 that the model can say"
            }
            Self::Refused => "the model refused",
            Self::Unfit => "the model gave no answer that was accepted",
            Self::Unsupported(item) => {
                return write!(
                    f,
                    "the model asked for an item `{item}` to be executed, which the library cannot do: \
                     `resume` tells the model so. To prevent it, leave out the vendor's tool"
                );
            }
            Self::Cancelled => "the run was stopped",
            Self::Waiting => {
                "calls wait for a decision or an answer: `resume` continues the run when there is one"
            }
            Self::Denied => "a call was denied, which ends the run",
            Self::Failed => "the run failed",
        })
    }
}
