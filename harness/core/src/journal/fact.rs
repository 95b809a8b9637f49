//! The facts that a run is made of.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CallSpent, ClearedArguments, ClearedResult, Decision, Prefix, Source, SummaryRequest,
    VendorSummary, Wait, wait::is_false,
};
use crate::{
    message::{Message, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::Scope,
};

/// One fact. A conversation is the list of its facts; everything else about it is derived from
/// them.
///
/// As JSON, a fact is an object whose member `fact` has its name in snake case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The conversation continues one that was kept elsewhere. Only the first fact of a
    /// conversation can be this one.
    Given {
        /// What was said before.
        transcript: Transcript,
    },
    /// The user said something. A run begins, and the limits of a run count from here.
    UserSaid {
        /// The message of the user.
        message: Message,
        /// The limits of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RecordedLimits>>,
    },
    /// The user said something while a run goes on. The model gets the message with the next
    /// request. If the model had just answered, the run continues. The run's limits do not count from
    /// zero.
    Steered {
        /// The message of the user.
        message: Message,
    },
    /// The form that the answer has to have in the run that has just begun.
    AnswerWanted {
        /// The wanted form.
        answer: Box<WantedAnswer>,
    },
    /// The model's answer is what was [wanted](WantedAnswer): the run is over.
    AnswerAccepted {},
    /// The model's answer is not what was [wanted](WantedAnswer).
    AnswerRejected {
        /// The check that rejected the answer.
        #[serde(rename = "check")]
        by: AnswerCheck,
        /// Everything that is wrong with the answer.
        faults: Vec<String>,
        /// The message to the model, which then answers again. `None` if it has no attempt left;
        /// the run is over then.
        message: Option<Message>,
    },
    /// A run that had stopped continues after its last complete fact. What it has spent and how
    /// long it has gone on still count, unless new limits are set here.
    Resumed {
        /// The message to the model, if its own answer broke off: a conversation that ends with the
        /// model's text cannot be sent as it is. An answer that the vendor has paused did not break
        /// off, and is sent as it is.
        message: Option<Message>,
        /// New limits. Everything counts from zero again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RecordedLimits>>,
    },
    /// The conversation was opened again in the middle of a run, and nobody knows how that run
    /// ended: its process was killed, or its future was dropped. Calls that had started run again
    /// if they may; the others are in doubt.
    Reopened {
        /// The ids of calls that could run again by what their tools declared when the calls were
        /// allowed, but may not by what the tools declare now. These calls are in doubt, too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        doubtful: Vec<String>,
    },
    /// The model has completed an answer.
    ModelReplied {
        /// What it said; `None` if there is nothing to keep.
        message: Option<Message>,
        /// Why it stopped.
        stop: StopReason,
        /// The tokens of the request and the answer.
        usage: Usage,
        /// The provider that answered, such as `anthropic`.
        provider: String,
        /// The model that answered, by the vendor's name for it.
        model: String,
        /// The name of the model that was asked, if the one that answered has another name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_model: Option<String>,
    },
    /// The run was stopped, or something that it needs has failed.
    Interrupted {
        /// What has arrived of an answer and can be kept.
        message: Option<Message>,
        /// The tokens that were counted until then: a lower bound.
        usage: Usage,
        /// What stopped it.
        cause: InterruptCause,
        /// Whether the model had been asked and had not completed its answer. That counts as a
        /// turn, too.
        #[serde(default)]
        asked: bool,
    },
    /// It was decided whether a call may run.
    CallDecided {
        /// The call's id.
        call: String,
        /// The decision.
        decision: Decision,
    },
    /// A call cannot continue until somebody outside of the run has answered.
    CallWaits {
        /// The call's id.
        call: String,
        /// What it waits for.
        wait: Wait,
    },
    /// Somebody has answered the question of a tool that ended as *waiting*. The tool is called
    /// again.
    CallAnswered {
        /// The call's id.
        call: String,
        /// The answer.
        answer: Value,
        /// The person who gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When it was given, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
    },
    /// The program has given the outcome of a call that waited for its result or was in doubt.
    CallSettled {
        /// The result. It has the id of the call.
        result: ToolResult,
        /// The person who gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When it was given, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
        /// What the agents of the call have spent, without what an earlier fact has already
        /// recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// The decision about a call no longer holds, because its tool now declares more than was
    /// allowed, or because the grant was revoked. The call has to be decided again.
    CallUndecided {
        /// The call's id.
        call: String,
    },
    /// It is now known of a call in doubt that nothing of it has happened, or of a call whose start was recorded that it did
    /// not begin then. The call is to run.
    CallCleared {
        /// The call's id.
        call: String,
        /// What the agents of the call have spent, without what an earlier fact has already
        /// recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// What a person had allowed by *always* was withdrawn.
    GrantRevoked {
        /// The id of the call that the person was asked about.
        call: String,
        /// The calls for which it held.
        scope: Scope,
    },
    /// The run that has just begun was started by a call of another conversation: its
    /// conversation is that of an agent in a call.
    CalledBy {
        /// The name of the conversation that has the call.
        conversation: String,
        /// The id of the call.
        call: String,
        /// The id of the message that the model has answered with the call. It tells the conversation from another one that
        /// is begun under its name after it was deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The conversation continues from here on its own, apart from the one that it shares the
    /// earlier facts with. Open calls belong to the other one.
    Forked {},
    /// A call is about to start. This fact is written before the call starts.
    CallStarted {
        /// The call's id.
        call: String,
    },
    /// A call runs an agent whose conversation is in no journal, or in one that the call has chosen itself. This fact is
    /// written before that agent begins: if the process ends before the call has its result, it is not known what the agent
    /// has spent.
    UnkeptAgentStarted {
        /// The call's id.
        call: String,
    },
    /// The model is told something that these sources have brought, and the fact that tells it does not say so.
    SourcesRead {
        /// The id of the call whose result, the next fact, comes from these sources. `None` if it is no result: the
        /// task that a caller gives its agent, in the fact before, or an objection to an answer, in the next fact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The sources.
        sources: Vec<Source>,
    },
    /// A call has its result.
    CallFinished {
        /// The result. It has the id of the call.
        result: ToolResult,
        /// What the agents of the call have spent, without what an earlier fact has already
        /// recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// A call that was told to stop, and that already has a result, has really ended now. The model
    /// is told with the next message or results.
    CallEnded {
        /// The name of the call's tool.
        tool: String,
        /// How the call ended. The result has the id of the call.
        result: ToolResult,
    },
    /// A call has searched for tools. From now on, the model also gets these tools.
    ToolsFound {
        /// The id of the call.
        call: String,
        /// The names of the tools.
        tools: Vec<String>,
    },
    /// From now on, a line is sent in place of each of these results or of files of them or of the
    /// user, and shorter arguments in place of those of each of these calls. Reasoning from before this fact is not sent any more.
    /// The transcript keeps everything.
    ContextCleared {
        /// The cleared results.
        results: Vec<ClearedResult>,
        /// The cleared arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<ClearedArguments>,
        /// How many tokens the next request would have had before the change: an estimate.
        before: u64,
        /// How many tokens the next request has now: an estimate.
        after: u64,
    },
    /// The model is about to be asked for a summary. This fact is written before the request: if the process ends before the
    /// next fact, which says how the request has ended, it is not known what the request has cost.
    CompactionStarted {
        /// The provider.
        provider: String,
        /// The name of the model that is asked.
        model: String,
    },
    /// From now on, a summary is sent in place of the first messages. Reasoning from before this
    /// fact is not sent any more. The transcript keeps everything.
    ContextCompacted {
        /// How many messages at the beginning of the transcript the summary replaces.
        messages: u64,
        /// The indexes, in the transcript, of those messages that are still sent. They come before
        /// the summary.
        kept: Vec<u64>,
        /// The summary as it is sent.
        summary: Message,
        /// The vendor's own summary. The model that has made it gets this in place of the kept
        /// messages and the summary, together with the reasoning that comes after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vendor: Option<Box<VendorSummary>>,
        /// The request for the summary.
        request: Box<SummaryRequest>,
        /// How many tokens the next request would have had before the change: an estimate.
        before: u64,
        /// How many tokens the next request has now: an estimate.
        after: u64,
    },
    /// A request for a summary failed. What is sent stays the same.
    CompactionFailed {
        /// If the request was refused because it is too large: how many tokens of the conversation it had, by the
        /// estimate. The next request has fewer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        too_large: Option<u64>,
        /// The request for the summary.
        request: Box<SummaryRequest>,
        /// Why it failed, in words for a person.
        cause: String,
        /// Whether the run was stopped meanwhile. This does not count as a failure of the model.
        #[serde(default, skip_serializing_if = "is_false")]
        stopped: bool,
        /// Whether the vendor was asked for a summary of its own. The model is then asked for one
        /// as text.
        #[serde(default, skip_serializing_if = "is_false")]
        vendor: bool,
    },
    /// The vendor has refused a request that begins with its own summary. From now on, the summary
    /// as text is sent to every model, and reasoning from before this fact is not sent any more.
    VendorSummaryRefused {
        /// Why it refused, in words for a person.
        cause: String,
    },
    /// The vendor has refused a request because it does not fit into the model's window.
    ContextOverflowed {
        /// The provider.
        provider: String,
        /// The model whose window is full.
        model: String,
        /// Whether another provider has refused it, to which the agent fell back: then the sizes say nothing of this model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fallback: bool,
        /// How many tokens the window has, if the vendor has stated it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// How many tokens the request had, if the vendor has stated it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// How many tokens the request had by the estimate.
        estimated: u64,
    },
    /// The program wants this text in each summary, unchanged.
    ContextPinned {
        /// The text.
        text: String,
    },
    /// From now on, requests to models that bind their reasoning have these instructions and tools. It is written before the
    /// first request to such a model, and before one for which they have changed.
    PrefixSet {
        /// The instructions and the tools; what of them is new, if they are `appended`. `None` if they stay as they were, and
        /// the vendor has refused reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefix: Option<Box<Prefix>>,
        /// Whether they are sent behind the last message so far, and what came first stays there. If not, they replace what
        /// came first.
        #[serde(default, skip_serializing_if = "is_false")]
        appended: bool,
        /// Of how many messages the reasoning was sent until now and is not sent any more, because it is bound to what
        /// came first. The transcript keeps it.
        #[serde(default)]
        left_out: u64,
        /// What has changed, in words for a person. Empty if nothing is known of what was there before.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        change: String,
        /// If the vendor has refused the reasoning: its words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<String>,
    },
}

/// The form that the answer of a run has to have, if it has to be more than text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WantedAnswer {
    /// The JSON Schema that the answer has to match; `None` if any text is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// How often the model may answer again after its answer did not match the schema.
    pub tries: u32,
    /// How often the model may answer again after the program's function has rejected its answer.
    /// `None` if there is no such function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifications: Option<u32>,
}

/// What has checked an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerCheck {
    /// The [schema](WantedAnswer::schema) and the type that the answer is read as.
    Schema,
    /// The program's function.
    Verifier,
}

/// What a [`Fact`] tells of. Code that reads facts and treats most of them alike matches on this, so a new fact is
/// assigned in one place: [`Fact::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactKind {
    /// The user or the program said something.
    Input,
    /// The model has answered, or its answer broke off.
    Answer,
    /// An answer of the model was checked.
    Check,
    /// The state of a call has changed.
    Call,
    /// A call has ended.
    Result,
    /// What is sent of the conversation has changed, or an attempt to change it has failed.
    Context,
    /// The conversation was opened, continued or forked, or a grant was withdrawn.
    Lifecycle,
}

impl Fact {
    /// What the fact tells of.
    pub fn kind(&self) -> FactKind {
        match self {
            Self::Given { .. } | Self::UserSaid { .. } | Self::Steered { .. } => FactKind::Input,
            Self::ModelReplied { .. } | Self::Interrupted { .. } => FactKind::Answer,
            Self::AnswerWanted { .. } | Self::AnswerAccepted {} | Self::AnswerRejected { .. } => {
                FactKind::Check
            }
            Self::CallDecided { .. }
            | Self::CallUndecided { .. }
            | Self::CallWaits { .. }
            | Self::CallAnswered { .. }
            | Self::CallCleared { .. }
            | Self::CallStarted { .. }
            | Self::UnkeptAgentStarted { .. }
            | Self::SourcesRead { .. }
            | Self::ToolsFound { .. } => FactKind::Call,
            Self::CallFinished { .. } | Self::CallSettled { .. } | Self::CallEnded { .. } => {
                FactKind::Result
            }
            Self::ContextCleared { .. }
            | Self::CompactionStarted { .. }
            | Self::ContextCompacted { .. }
            | Self::CompactionFailed { .. }
            | Self::VendorSummaryRefused { .. }
            | Self::ContextOverflowed { .. }
            | Self::ContextPinned { .. }
            | Self::PrefixSet { .. } => FactKind::Context,
            Self::Resumed { .. }
            | Self::Reopened { .. }
            | Self::CalledBy { .. }
            | Self::Forked {}
            | Self::GrantRevoked { .. } => FactKind::Lifecycle,
        }
    }

    /// The id of the call that the fact tells of, if it tells of a single one.
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::CallDecided { call, .. }
            | Self::CallUndecided { call }
            | Self::CallWaits { call, .. }
            | Self::CallAnswered { call, .. }
            | Self::CallCleared { call, .. }
            | Self::CallStarted { call }
            | Self::UnkeptAgentStarted { call }
            | Self::ToolsFound { call, .. }
            | Self::GrantRevoked { call, .. } => Some(call),
            Self::SourcesRead { call, .. } => call.as_deref(),
            Self::CallFinished { result, .. }
            | Self::CallSettled { result, .. }
            | Self::CallEnded { result, .. } => Some(result.call_id()),
            _ => None,
        }
    }
}

/// The limits of one run, as plain data. `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordedLimits {
    /// How often the model is asked.
    pub turns: Option<u32>,
    /// How long the run takes, in milliseconds.
    pub time: Option<u64>,
    /// How many calls fail in a row.
    pub failed_calls: Option<u32>,
    /// In how many turns the model gets the same results again.
    pub repetitions: Option<u32>,
    /// In how many turns the model makes the same call, whatever its results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_calls: Option<u32>,
    /// How many calls of one answer run.
    pub calls_per_turn: Option<u32>,
    /// The tools that may return the same result any number of times.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub polling: BTreeSet<String>,
    /// How many calls run.
    pub tool_calls: Option<u32>,
    /// How many tokens are sent.
    pub input_tokens: Option<u64>,
    /// How many tokens the model writes.
    pub output_tokens: Option<u64>,
    /// What the run costs, in the currency of the prices.
    pub cost: Option<f64>,
    /// Whether a model of unknown cost is refused.
    pub refuse_unknown_cost: bool,
}

/// What stopped a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum InterruptCause {
    /// The program cancelled or dropped it.
    Program,
    /// A limit was reached.
    Limit {
        /// Which limit.
        limit: LimitKind,
        /// Whose limit.
        #[serde(default)]
        scope: LimitScope,
        /// How it was reached, in words for a person.
        detail: String,
    },
    /// A call was denied, and the permissions say that a denial ends the run.
    Denial {
        /// The call's id.
        call: String,
    },
    /// Something that the run needs has failed.
    Failure {
        /// What has failed, in words for a person.
        error: String,
    },
}

/// A quantity that a limit restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// How often the model is asked.
    Turns,
    /// How many calls run.
    ToolCalls,
    /// How many tokens are sent.
    InputTokens,
    /// How many tokens the model writes.
    OutputTokens,
    /// What the run costs.
    Cost,
    /// A cost that is not known, where that is refused.
    UnknownCost,
    /// The time that the run takes.
    Time,
    /// How many calls fail in a row.
    FailedCalls,
    /// In how many turns the model gets the same result or makes the same call again.
    Repetitions,
}

impl fmt::Display for LimitKind {
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
    /// The limit of the run itself.
    #[default]
    Run,
    /// The limit of all runs of the conversation.
    Conversation,
    /// The limit of all conversations of the agent.
    Agent,
    /// The limit of a budget around the run: that of the run whose tool has called it, with the
    /// budgets around that one, or a budget of the program.
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
