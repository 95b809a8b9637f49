//! The facts that a run is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    message::{Message, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::SideEffects,
};

/// One fact. A conversation is the list of its facts; all else follows from it.
///
/// As JSON each is an object whose `fact` names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// The conversation continues one that was kept elsewhere. Only the first fact can be this.
    Given {
        /// What was said before.
        transcript: Transcript,
    },
    /// The user said something; a run begins.
    UserSaid {
        /// What was said.
        message: Message,
    },
    /// A run that had stopped goes on from the last complete fact; a run begins.
    Resumed {
        /// What the model is told, if it is its own reply that broke off: a conversation that ends
        /// with the model's words is not one that it can be asked to continue.
        message: Option<Message>,
    },
    /// The model answered to the end.
    ModelReplied {
        /// What it said; `None` if there is nothing to keep.
        message: Option<Message>,
        /// Why it stopped.
        stop: StopReason,
        /// Tokens counted.
        usage: Usage,
        /// Who answered, such as `anthropic`.
        provider: String,
        /// The model that answered, as the vendor names it.
        model: String,
    },
    /// The run was stopped, or what it needed failed.
    Interrupted {
        /// What had arrived of an answer and can be kept.
        message: Option<Message>,
        /// Tokens counted until then: a lower bound.
        usage: Usage,
        /// What stopped it.
        cause: InterruptCause,
    },
    /// It was decided whether a call may run.
    CallDecided {
        /// The call's id.
        call: String,
        /// The decision.
        decision: Decision,
    },
    /// A call is about to start: written before it does.
    CallStarted {
        /// The call's id.
        call: String,
    },
    /// A call has its result.
    CallFinished {
        /// The result; it names the call.
        result: ToolResult,
    },
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Decision {
    /// It may.
    Allow {
        /// What its tool declared at that time, from which order and truth follow.
        side_effects: SideEffects,
    },
    /// It may not.
    Deny {
        /// Why, in words for the model.
        reason: String,
    },
}

/// What stopped a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum InterruptCause {
    /// The program cancelled it or let go of it.
    Program,
    /// A limit of the run was reached.
    Limit {
        /// Which.
        limit: Limit,
        /// How, in words for a person.
        detail: String,
    },
    /// A call was denied, and a denial ends the run.
    Denial {
        /// The call's id.
        call: String,
    },
    /// Something that it needed failed.
    Failure {
        /// What, in words for a person.
        error: String,
    },
}

impl InterruptCause {
    /// Whether it stopped the run before the model was asked: all limits do but the one of time.
    pub fn is_unasked(&self) -> bool {
        matches!(self, Self::Limit { limit, .. } if *limit != Limit::Time)
    }
}

/// What a run can have too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Times that the model is asked.
    Turns,
    /// Calls that run.
    ToolCalls,
    /// Tokens that are sent.
    InputTokens,
    /// Tokens that the model says.
    OutputTokens,
    /// Money.
    Cost,
    /// Time on the clock.
    Time,
    /// Calls that fail one after the other.
    FailedCalls,
    /// Turns in which the model hears the same again.
    Repetitions,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "turns",
            Self::ToolCalls => "tool calls",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::Cost => "cost",
            Self::Time => "time",
            Self::FailedCalls => "failed calls in a row",
            Self::Repetitions => "repetitions",
        })
    }
}
