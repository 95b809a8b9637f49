//! The facts that a run is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    message::{Message, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::{Scope, SideEffects},
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
        /// with the model's words is not one that it can be asked to continue. An answer that the
        /// vendor paused did not break off: it is sent as it is.
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
    /// A call that was told to stop while it ran, and has its result, has really ended now. The
    /// model is told with the next message or results.
    CallEnded {
        /// The name of its tool.
        tool: String,
        /// How it ended; it names the call.
        result: ToolResult,
    },
}

/// Whether a call may run, and who decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// It may.
    Allow {
        /// What its tool declared at that time, from which order and truth follow.
        side_effects: SideEffects,
        /// Who decided it.
        #[serde(default)]
        by: Decider,
    },
    /// It may not.
    Deny {
        /// Why, in words for the model.
        reason: String,
        /// Who decided it.
        #[serde(default)]
        by: Decider,
    },
}

/// Who or what decided about a call, or wants a person to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decider", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decider {
    /// It was not written down.
    #[default]
    Unrecorded,
    /// The table of declared side effects: see [`Permissions`](crate::policy::Permissions).
    SideEffects,
    /// What the program says about the tool by its name.
    ToolName,
    /// A rule of the program.
    Rule {
        /// Its name.
        name: String,
    },
    /// The tool's own [`Review`](crate::tool::Review).
    Review,
    /// The policy that holds data back: see [`Egress`](crate::policy::Egress).
    Egress,
    /// The program, which allows whatever would be asked:
    /// [`Permissions::allow_all`](crate::policy::Permissions::allow_all).
    Program,
    /// A person, through the approver.
    Person {
        /// Who, if the approver says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
        /// For what the answer holds from then on, if it was *always*.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<Scope>,
    },
    /// A person who said *always* before.
    Always {
        /// The id of the call that the person was asked about.
        call: String,
        /// For what it holds.
        scope: Scope,
    },
    /// There was nobody to ask.
    Nobody,
    /// The call itself: its arguments cannot be read, or there is no such tool.
    Call,
    /// Code of the program that should have decided panicked.
    Fault,
}

/// What stopped a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InterruptCause {
    /// The program cancelled it or let go of it.
    Program,
    /// A limit was reached.
    Limit {
        /// Which.
        limit: Limit,
        /// Whose.
        #[serde(default)]
        scope: LimitScope,
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
    /// Money of which nobody knows how much it is, where that is refused.
    UnknownCost,
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
            Self::UnknownCost => "unknown cost",
            Self::Time => "time",
            Self::FailedCalls => "failed calls in a row",
            Self::Repetitions => "repetitions",
        })
    }
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitScope {
    /// The run's own.
    #[default]
    Run,
    /// That of all runs of its conversation.
    Conversation,
    /// That of all conversations of its agent.
    Agent,
    /// That of a budget that the run was set within: of the run whose tool called it, with all that
    /// that one stands within, or one of the program.
    Outer,
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Conversation => "conversation",
            Self::Agent => "agent",
            Self::Outer => "outer budget",
        })
    }
}
