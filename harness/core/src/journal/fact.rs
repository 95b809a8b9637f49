//! The facts of a conversation.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Serialize,
    de::{Error as _, value},
};
use serde_json::Value;

use super::{
    CallSpent, ClearedArguments, ClearedResult, Decision, Prefix, Source, SummaryRequest,
    VendorSummary, Wait, read_fact::required,
};
use crate::{
    message::{Message, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::Scope,
};

/// One fact. A conversation is stored as the list of its facts; all other state is derived from the facts.
///
/// The JSON form is an object whose member `fact` is the name of the variant in snake case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The conversation continues a transcript that the program passed in. Only the first fact of a conversation can be
    /// `Given`.
    Given {
        /// The earlier messages.
        transcript: Transcript,
    },
    /// A new message of the user. A run begins, and the limits of the run count from here.
    UserSaid {
        /// The message of the user.
        message: Message,
        /// The limits of the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RecordedLimits>>,
    },
    /// A message of the user during a run. The model gets the message with the next request. If the model has just
    /// completed its answer, the run continues. The counters for the run's limits are not reset.
    Steered {
        /// The message of the user.
        message: Message,
    },
    /// The required form of the answer of the run that has just begun.
    AnswerWanted {
        /// The required form.
        answer: Box<WantedAnswer>,
    },
    /// The model's answer passed all [checks](WantedAnswer), and the run is over.
    AnswerAccepted {},
    /// The model's answer failed a [check](WantedAnswer).
    AnswerRejected {
        /// The check that rejected the answer.
        #[serde(rename = "check")]
        by: AnswerCheck,
        /// All faults of the answer.
        faults: Vec<String>,
        /// The message that asks the model for another answer. `None` if no attempt is left. In that case, the run is
        /// over.
        message: Option<Message>,
    },
    /// A stopped run continues after its last complete fact. The run's spending and duration still count against the
    /// limits, unless new limits are set here.
    Resumed {
        /// A message to the model after an incomplete answer, because a conversation that ends with a message of the
        /// model cannot be sent. Can be `None` after an answer that the vendor paused, because the library sends such a
        /// conversation unchanged.
        message: Option<Message>,
        /// New limits, if any. With new limits, spending and duration count from zero.
        #[serde(skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RecordedLimits>>,
    },
    /// The conversation was opened again in the middle of a run whose end is unknown, because the process was killed or
    /// the future was dropped. Started calls that may be repeated run again. All other started calls are in doubt.
    Reopened {
        /// The ids of calls that may not run again according to the current declaration of their tools, although they
        /// were approved as repeatable. These calls are in doubt, too.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        doubtful: Vec<String>,
    },
    /// The model completed an answer.
    ModelReplied {
        /// The answer; `None` if the answer has no content to keep.
        message: Option<Message>,
        /// Why the model stopped.
        stop: StopReason,
        /// The tokens of the request and the answer.
        usage: Usage,
        /// The provider that answered, such as `anthropic`.
        provider: String,
        /// The vendor's name for the model that answered.
        model: String,
        /// The requested model name. `None` if the model that answered has the same name.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_model: Option<String>,
    },
    /// The run was stopped, or a failure ended the run.
    Interrupted {
        /// The part of an unfinished answer that can be kept.
        message: Option<Message>,
        /// The tokens that were counted so far: a lower bound.
        usage: Usage,
        /// What stopped the run.
        cause: InterruptCause,
        /// Whether a request to the model was sent and its answer was not complete. Such a request counts as a turn.
        asked: bool,
    },
    /// The permissions, a person or another [decider](super::Decider) decided whether a call may run.
    CallDecided {
        /// The id of the call.
        call: String,
        /// The decision.
        decision: Decision,
    },
    /// A call cannot continue until somebody outside of the run answers.
    CallWaits {
        /// The id of the call.
        call: String,
        /// What the call waits for.
        wait: Wait,
    },
    /// Somebody answered the question that a tool asked with [`ToolError::asks`](crate::tool::ToolError::asks). The
    /// tool is called again with the answer.
    CallAnswered {
        /// The id of the call.
        call: String,
        /// The answer.
        answer: Value,
        /// The person who gave the answer, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The time of the answer, in milliseconds since the Unix epoch.
        at: u64,
    },
    /// The program set the outcome of a call that waited for its result or was in doubt.
    CallSettled {
        /// The result, with the id of the call.
        result: ToolResult,
        /// The person who gave the result, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The time at which the result was given, in milliseconds since the Unix epoch.
        at: u64,
        /// The spending of the agents inside the call, without the amounts that earlier facts have recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// The decision about a call is no longer valid, because the tool now declares more side effects than were allowed,
    /// or because the grant was revoked. A new decision is needed.
    CallUndecided {
        /// The id of the call.
        call: String,
    },
    /// A call may run now, because it had no effect so far. Either a call in doubt turned out not to have happened, or
    /// a call did not begin although its start was recorded.
    CallCleared {
        /// The id of the call.
        call: String,
        /// The spending of the agents inside the call, without the amounts that earlier facts have recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// A grant that a person gave with the answer *always* was revoked.
    GrantRevoked {
        /// The id of the call for which the person gave the grant.
        call: String,
        /// The scope of the grant.
        scope: Scope,
    },
    /// A call of another conversation started the run that has just begun: this is the conversation of an agent that
    /// runs inside that call.
    CalledBy {
        /// The name of the conversation that contains the call.
        conversation: String,
        /// The id of the call.
        call: String,
        /// The id of the model's message that contains the call. This id distinguishes the calling conversation from a
        /// later conversation of the same name.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The conversation is a fork from here on. Calls that are open at this point belong to the original conversation.
    Forked {},
    /// A call is about to start. This fact is written before the start.
    CallStarted {
        /// The id of the call.
        call: String,
    },
    /// A call is about to start an agent whose conversation is in no journal, or in a journal that the call itself
    /// chose. This fact is written before the start: if the process ends before the call has its result, the agent's
    /// spending is unknown.
    UnkeptAgentStarted {
        /// The id of the call.
        call: String,
    },
    /// The model reads content that comes from these sources. The fact that contains the content does not name the
    /// sources.
    SourcesRead {
        /// The id of the call whose result, in the next fact, comes from these sources. `None` if the content is a task
        /// or an objection. The previous fact records the task that a caller gave its agent. The next fact records an
        /// objection to an answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The sources.
        sources: Vec<Source>,
    },
    /// A call got its result.
    CallFinished {
        /// The result, with the id of the call.
        result: ToolResult,
        /// The spending of the agents inside the call, without the amounts that earlier facts have recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// A call continued to run after the library had asked it to stop, and has now ended. The call already has a
    /// result. The next message or the next results inform the model.
    CallEnded {
        /// The name of the tool.
        tool: String,
        /// How the call ended. The result has the id of the call.
        result: ToolResult,
    },
    /// A call searched for tools. All later requests contain the tools that the call found.
    ToolsFound {
        /// The id of the call.
        call: String,
        /// The names of the tools.
        tools: Vec<String>,
    },
    /// In all later requests, one line replaces each of these results. If only files of a result or of a user's message
    /// are left out, the line replaces only these files. Shorter arguments replace the arguments of these calls.
    /// Reasoning from before this fact is no longer sent. The transcript keeps everything.
    ContextCleared {
        /// The cleared results.
        results: Vec<ClearedResult>,
        /// The cleared arguments.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<ClearedArguments>,
        /// The estimated number of tokens of the next request without the change.
        before: u64,
        /// The estimated number of tokens of the next request with the change.
        after: u64,
    },
    /// A request for a summary is about to be sent. This fact is written before the request. If the process ends before
    /// the next fact, which records the outcome, the cost of the request is unknown.
    CompactionStarted {
        /// The provider.
        provider: String,
        /// The name of the requested model.
        model: String,
    },
    /// All later requests contain a summary in place of the first messages. Reasoning from before this fact is no
    /// longer sent. The transcript keeps everything.
    ContextCompacted {
        /// The number of messages, from the beginning of the transcript, that the summary replaces.
        messages: u64,
        /// The indexes, in the transcript, of replaced messages that requests still contain. These messages precede the
        /// summary.
        kept: Vec<u64>,
        /// The summary, in the form in which it is sent.
        summary: Message,
        /// The vendor's own summary. Requests to the model that made this summary contain the vendor's summary in place
        /// of the kept messages and the text summary. These requests also contain the reasoning that follows the
        /// summary.
        #[serde(skip_serializing_if = "Option::is_none")]
        vendor: Option<Box<VendorSummary>>,
        /// The request for the summary.
        request: Box<SummaryRequest>,
        /// The estimated number of tokens of the next request without the change.
        before: u64,
        /// The estimated number of tokens of the next request with the change.
        after: u64,
    },
    /// A request for a summary failed. The content of later requests stays the same.
    CompactionFailed {
        /// The estimated number of tokens of the conversation in a request that the vendor refused as too large. The
        /// next request for a summary is smaller.
        #[serde(skip_serializing_if = "Option::is_none")]
        too_large: Option<u64>,
        /// The request for the summary.
        request: Box<SummaryRequest>,
        /// Why the request failed, as text for a person.
        cause: String,
        /// Whether the run was stopped during the request. Such a request does not count as a failure of the model.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stopped: bool,
        /// Whether the request was for a vendor's own summary. If so, the model is asked for a text summary next.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        vendor: bool,
    },
    /// The vendor refused a request that begins with a summary of this vendor. All later requests contain the text
    /// summary for every model, and reasoning from before this fact is no longer sent.
    VendorSummaryRefused {
        /// The reason of the refusal, as text for a person.
        cause: String,
    },
    /// The vendor refused a request because it does not fit into the model's window.
    ContextOverflowed {
        /// The provider.
        provider: String,
        /// The name of the model whose window is full.
        model: String,
        /// Whether a fallback provider refused the request. In that case, the sizes do not apply to the first
        /// provider's model.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        fallback: bool,
        /// The number of tokens of the window, if the vendor stated it.
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// The number of tokens of the request, if the vendor stated it.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// The estimated number of tokens of the request.
        estimated: u64,
    },
    /// The program pinned a text, which every later summary contains unchanged.
    ContextPinned {
        /// The text.
        text: String,
    },
    /// The instructions and tools that all later requests contain. This fact exists only for models that refuse or drop
    /// their earlier reasoning when their instructions or tools change. The library writes this fact before the first
    /// request, after each change of the instructions or the tools, and after a search that has found tools.
    PrefixSet {
        /// The instructions and the tools. With `appended`, only the new instructions and tools. `None` if this fact
        /// only records that the vendor refused reasoning.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<Box<Prefix>>,
        /// Whether the new instructions and tools are sent after the last message so far, and the earlier ones stay at
        /// the beginning. If `false`, the new ones replace the earlier ones.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        appended: bool,
        /// The number of messages whose reasoning is no longer sent from now on, because that reasoning is valid only
        /// with other instructions, tools or earlier messages. The transcript keeps the reasoning.
        left_out: u64,
        /// The indexes of these messages in the transcript, if later reasoning or reasoning between them is still sent.
        /// Empty if no reasoning before this fact is sent any more.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        messages: Vec<u64>,
        /// What changed, as text for a person. Empty if the earlier state is unknown.
        #[serde(skip_serializing_if = "String::is_empty")]
        change: String,
        /// The server's message, if the server refused a request with the reasoning, or with instructions and tools
        /// after a message, and has answered the request without them.
        #[serde(skip_serializing_if = "Option::is_none")]
        refusal: Option<String>,
    },
    /// The next answer was made with the program's own instructions and tools instead of those of
    /// [`PrefixSet`](Self::PrefixSet), because the reasoning of the model is not bound to them. A model whose reasoning
    /// is bound does not get the reasoning of this answer.
    PrefixUnused {},
}

/// The required form of a run's answer, if more than text is required.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WantedAnswer {
    /// The JSON Schema that the answer has to match; `None` if any text is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// How many further attempts the model has after an answer that did not match the schema.
    pub tries: u32,
    /// How many further attempts the model has after the program's function rejected an answer. `None` if there is no
    /// such function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifications: Option<u32>,
}

/// The check that an answer passed or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerCheck {
    /// The [schema](WantedAnswer::schema), and the type into which the answer is parsed.
    Schema,
    /// The program's function (the verifier).
    Verifier,
}

/// The subject of a [`Fact`]. Code that treats most facts alike matches on the kind. A new fact gets its kind in one
/// place: [`Fact::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactKind {
    /// The user or the program sent a message.
    Input,
    /// The model answered, or its answer broke off.
    Answer,
    /// An answer of the model was checked.
    Check,
    /// The state of a call has changed.
    Call,
    /// A call has ended.
    Result,
    /// The content of later requests changed, or an attempt to change it failed.
    Context,
    /// The conversation was opened, continued or forked, or a grant was revoked.
    Lifecycle,
}

impl Fact {
    /// The subject of the fact.
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
            | Self::PrefixSet { .. }
            | Self::PrefixUnused {} => FactKind::Context,
            Self::Resumed { .. }
            | Self::Reopened { .. }
            | Self::CalledBy { .. }
            | Self::Forked {}
            | Self::GrantRevoked { .. } => FactKind::Lifecycle,
        }
    }

    /// The id of the call that the fact is about. `None` if the fact is not about a single call.
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

/// The limits of one run, as plain data for storage. `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordedLimits {
    /// The number of requests to the model.
    pub turns: Option<u32>,
    /// The duration of the run, in milliseconds.
    pub time: Option<u64>,
    /// The number of consecutive failed calls.
    pub failed_calls: Option<u32>,
    /// The number of turns in which the model gets the same results again.
    pub repetitions: Option<u32>,
    /// The number of turns in which the model repeats the same call, whatever the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_calls: Option<u32>,
    /// How many calls of the same answer may run.
    pub calls_per_turn: Option<u32>,
    /// The tools that may return the same result any number of times.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub polling: BTreeSet<String>,
    /// The number of calls that run.
    pub tool_calls: Option<u32>,
    /// The number of tokens that are sent.
    pub input_tokens: Option<u64>,
    /// The number of tokens that the model writes.
    pub output_tokens: Option<u64>,
    /// The cost of the run, in the currency of the prices.
    pub cost: Option<f64>,
    /// Whether requests to a model without a known price are refused.
    pub refuse_unknown_cost: bool,
}

/// What stopped a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", try_from = "CauseMembers")]
pub enum InterruptCause {
    /// The program cancelled the run or dropped its future.
    Program,
    /// A limit was reached.
    Limit {
        /// The quantity whose limit was reached.
        limit: LimitKind,
        /// What the limit applies to, such as the run or the conversation.
        scope: LimitScope,
        /// How the limit was reached, as text for a person.
        detail: String,
    },
    /// A call was denied, and the permissions end the run after a denial.
    Denial {
        /// The id of the denied call.
        call: String,
    },
    /// A failure ended the run.
    Failure {
        /// What failed, as text for the people who run the program.
        error: String,
        /// The [text of the error](crate::error::Error::public_text) for a person who uses the program, for example in
        /// a browser. `None` if there is no such text: the person learns only that the run failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        public_text: Option<String>,
    },
}

/// The members of all variants of [`InterruptCause`]. Serde reads this struct in one pass, wherever the kind stands.
#[derive(Deserialize)]
struct CauseMembers {
    by: String,
    limit: Option<LimitKind>,
    #[serde(default)]
    scope: LimitScope,
    detail: Option<String>,
    call: Option<String>,
    error: Option<String>,
    public_text: Option<String>,
}

impl TryFrom<CauseMembers> for InterruptCause {
    type Error = value::Error;

    fn try_from(members: CauseMembers) -> Result<Self, value::Error> {
        let CauseMembers { by, limit, scope, detail, call, error, public_text } = members;
        Ok(match by.as_str() {
            "program" => Self::Program,
            "limit" => Self::Limit {
                limit: required(limit, "limit")?,
                scope,
                detail: required(detail, "detail")?,
            },
            "denial" => Self::Denial { call: required(call, "call")? },
            "failure" => Self::Failure { error: required(error, "error")?, public_text },
            _ => {
                let known = &["program", "limit", "denial", "failure"];
                return Err(value::Error::unknown_variant(&by, known));
            }
        })
    }
}

/// A quantity that a limit restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The number of requests to the model.
    Turns,
    /// The number of calls that run.
    ToolCalls,
    /// The number of tokens that are sent.
    InputTokens,
    /// The number of tokens that the model writes.
    OutputTokens,
    /// The cost of the run.
    Cost,
    /// The cost is unknown, and the limits refuse unknown costs.
    UnknownCost,
    /// The duration of the run.
    Time,
    /// The number of consecutive failed calls.
    FailedCalls,
    /// The number of turns in which the model gets the same results or makes the same call again.
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

/// What a limit applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitScope {
    /// A limit of the single run.
    #[default]
    Run,
    /// A limit for all runs of the conversation.
    Conversation,
    /// A limit for all conversations of the agent.
    Agent,
    /// A limit of a budget outside of this run: the budget of the run whose call started this run, the budget of a
    /// further outer run, or a budget of the program.
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
