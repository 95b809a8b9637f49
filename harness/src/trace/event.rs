//! What is written down of a run.

use serde::{Deserialize, Serialize};

use crate::{
    journal::{Decider, InterruptCause, Limit},
    message::CallOutcome,
    provider::{ContextTokens, StopReason, Usage},
    tool::SideEffects,
};

/// The number of the format.
pub const SCHEMA: u32 = 1;

/// One thing that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// The number of the format.
    pub v: u32,
    /// The run that it happened in.
    pub run: String,
    /// Microseconds since the trace began, on a clock that never goes back.
    pub at_us: u64,
    /// What happened. As JSON, its name is the member `event`, and its fields are members beside it.
    #[serde(flatten)]
    pub what: Happened,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happened {
    /// The user spoke, or the program resumed, and a run began.
    RunStarted {
        /// The time of day: milliseconds since 1970, in UTC.
        unix_ms: u64,
        /// Who is asked.
        provider: String,
        /// The model that is asked.
        model: String,
        /// The names of the tools.
        tools: Vec<String>,
        /// The conversation that it is a run of: the id of its first message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// What the user said, without pictures; not there if a run was resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    /// The model is asked.
    TurnStarted {
        /// Counts from 1 in each run.
        turn: u32,
    },
    /// The first event of the answer came.
    AnswerBegan {
        /// Counts from 1 in each run.
        turn: u32,
    },
    /// A call began.
    CallStarted {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments, as JSON text.
        arguments: String,
        /// Whether it began while the model still spoke.
        early: bool,
    },
    /// A tool said how far it has come, or that it is tried again.
    CallProgressed {
        /// The call's id.
        call: String,
        /// Its words.
        message: String,
    },
    /// The answer came to its end.
    ModelReplied {
        /// Counts from 1 in each run.
        turn: u32,
        /// The words.
        text: String,
        /// The thinking, if it was shown.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
        /// The calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<TracedCall>,
        /// Why the model stopped.
        stop: StopReason,
        /// Tokens of this turn.
        usage: Usage,
        /// What the tokens that were sent are made of.
        context: ContextTokens,
        /// Who answered.
        provider: String,
        /// The model that answered.
        model: String,
        /// The vendor's id of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<String>,
    },
    /// It was decided whether a call may run.
    CallDecided {
        /// The call's id.
        call: String,
        /// What its tool declares, if it may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_effects: Option<SideEffects>,
        /// Why not, if it may not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
        /// Who decided it.
        #[serde(default)]
        by: Decider,
    },
    /// A call that had been stopped and went on has ended.
    CallEnded {
        /// The call's id.
        call: String,
        /// How it ended.
        outcome: CallOutcome,
        /// What the model reads of it.
        text: String,
    },
    /// A call has its result.
    CallFinished {
        /// The call's id.
        call: String,
        /// What became of it.
        outcome: CallOutcome,
        /// What the model reads of it.
        text: String,
        /// Pictures that came with it.
        #[serde(default, skip_serializing_if = "is_zero")]
        images: usize,
        /// How long it ran, in microseconds. A call that began early may have ended long before
        /// this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_us: Option<u64>,
    },
    /// A call that began early was not in the answer in the end; its result is thrown away.
    CallDropped {
        /// The call's id.
        call: String,
    },
    /// The provider is asked again, after a wait.
    Retried {
        /// The number of the try that follows. Each turn's question to a provider counts from 1.
        attempt: u32,
        /// How many there may be of this question to this provider.
        of: u32,
        /// The wait, in microseconds.
        wait_us: u64,
        /// What failed.
        cause: String,
    },
    /// A provider is down, and another one is asked.
    FellBack {
        /// Who is down.
        from: String,
        /// Who is asked.
        to: String,
        /// What failed.
        cause: String,
    },
    /// The answer broke off and begins again: what came of it does not count.
    Discarded {
        /// What failed.
        cause: String,
    },
    /// Four fifths of a limit are used.
    LimitNear {
        /// Which limit.
        limit: Limit,
        /// How much.
        detail: String,
    },
    /// A limit is set and cannot be held.
    LimitUnknown {
        /// Which limit.
        limit: Limit,
        /// Why.
        detail: String,
    },
    /// The run was stopped.
    Interrupted {
        /// What stopped it.
        cause: InterruptCause,
        /// The words of an answer that had not come to its end.
        text: String,
        /// Its calls, so far as they were complete.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<TracedCall>,
        /// Tokens of that answer: a lower bound.
        usage: Usage,
    },
    /// The run is over.
    RunEnded {
        /// How, in words.
        outcome: String,
        /// Whether the model answered.
        answered: bool,
        /// Answers that came to their end.
        turns: u32,
        /// Tokens of its own turns. Agents that its tools call have runs of their own.
        usage: Usage,
        /// What these turns cost, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// Lines before this one were not written: the writer was too slow for them. Only what is
    /// written has this event; the trace in memory is whole.
    LinesLost {
        /// How many.
        lines: u64,
    },
    /// Something that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A call, as the model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedCall {
    /// Its id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
