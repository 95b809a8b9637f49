//! The facts that a run is made of.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ClearedArguments, ClearedResult, SummaryRequest, VendorSummary};
use crate::{
    message::{Message, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::{Review, Reviewed, Scope, SideEffects},
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
    /// The user said something; a run begins, and with it all that limits one run.
    UserSaid {
        /// What was said.
        message: Message,
        /// The limits of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RunLimits>>,
    },
    /// The user said something while a run goes on: the model is told before it is asked again. If it had
    /// just answered, the run goes on. What limits the run is not counted anew.
    Steered {
        /// What was said.
        message: Message,
    },
    /// What the answer of the run is to be that has just begun.
    AnswerWanted {
        /// What it is to be.
        answer: Box<WantedAnswer>,
    },
    /// The model's answer is what was [wanted](WantedAnswer): the run is over.
    AnswerAccepted {},
    /// The model's answer is not what was [wanted](WantedAnswer).
    AnswerRejected {
        /// What found that out.
        #[serde(rename = "check")]
        by: AnswerCheck,
        /// All that is wrong with it.
        faults: Vec<String>,
        /// What the model is told: it answers anew. `None` if it has no try left, and the run is over.
        message: Option<Message>,
    },
    /// A run that had stopped goes on from the last complete fact. What it has spent and for how
    /// long it has gone on still counts, unless new limits are set here.
    Resumed {
        /// What the model is told, if it is its own reply that broke off: a conversation that ends
        /// with the model's words is not one that it can be asked to continue. An answer that the
        /// vendor paused did not break off: it is sent as it is.
        message: Option<Message>,
        /// New limits: what was spent is counted anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RunLimits>>,
    },
    /// The conversation was read again while a run was going on, of which nobody knows how it ended:
    /// its process was killed, or its future was dropped. Calls that had started and may run again
    /// are to run again, and the others are in doubt.
    Reopened {
        /// Ids of calls that could have run again by what their tools declared when they were allowed,
        /// and may not by what these declare now: they are in doubt, too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        doubtful: Vec<String>,
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
        /// The model that was asked, where the one that answered has another name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_model: Option<String>,
    },
    /// The run was stopped, or what it needed failed.
    Interrupted {
        /// What had arrived of an answer and can be kept.
        message: Option<Message>,
        /// Tokens counted until then: a lower bound.
        usage: Usage,
        /// What stopped it.
        cause: InterruptCause,
        /// Whether the model had been asked and had not answered to the end: that counts as a turn,
        /// too.
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
    /// A call cannot go on until somebody outside of the run has answered.
    CallWaits {
        /// The call's id.
        call: String,
        /// For what.
        wait: Wait,
    },
    /// What a tool has asked by ending as *waiting* was answered: it is to be called again.
    CallAnswered {
        /// The call's id.
        call: String,
        /// The answer.
        answer: Value,
        /// Who gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
    },
    /// The program says what became of a call that waited for its result or was in doubt.
    CallSettled {
        /// The result; it names the call.
        result: ToolResult,
        /// Who said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
    },
    /// What was decided about a call no longer holds, since its tool declares more than what was
    /// allowed: it is to be decided anew.
    CallUndecided {
        /// The call's id.
        call: String,
    },
    /// Of a call that was in doubt it is known now that nothing of it has happened: it is to run.
    CallCleared {
        /// The call's id.
        call: String,
    },
    /// What a person had allowed by *always* was taken back.
    GrantRevoked {
        /// The id of the call that the person was asked about.
        call: String,
        /// For what it held.
        scope: Scope,
    },
    /// The conversation goes on from here apart from the one whose facts it shares: open calls belong to
    /// that one.
    Forked {},
    /// A call is about to start: written before it does.
    CallStarted {
        /// The call's id.
        call: String,
    },
    /// A call has its result.
    CallFinished {
        /// The result; it names the call.
        result: ToolResult,
        /// What the agents that the call ran have spent, without what an earlier fact has said of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Box<CallSpent>>,
    },
    /// A call that was told to stop while it ran, and has its result, has really ended now. The
    /// model is told with the next message or results.
    CallEnded {
        /// The name of its tool.
        tool: String,
        /// How it ended; it names the call.
        result: ToolResult,
    },
    /// A call has searched for tools that the model was not told of: from now on it is told of these.
    ToolsFound {
        /// The id of the call.
        call: String,
        /// The names of the tools.
        tools: Vec<String>,
    },
    /// From now on a line is sent in the place of each of these results, shorter arguments are sent in the place of
    /// those of each of these calls, and no thinking of what was said so far. The transcript keeps all of it.
    ContextCleared {
        /// The results.
        results: Vec<ClearedResult>,
        /// The arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<ClearedArguments>,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
    },
    /// From now on a summary is sent in the place of the first messages, and no thinking of what was said so far.
    /// The transcript keeps all of it.
    ContextCompacted {
        /// In the place of how many messages of the transcript, from the first one on.
        messages: u64,
        /// The places, in the transcript, of those among them that are still sent, before the summary.
        kept: Vec<u64>,
        /// The summary, as it is sent.
        summary: Message,
        /// What is sent in the place of all of these to the model that has made it, with the thinking of what
        /// was said since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vendor: Option<Box<VendorSummary>>,
        /// How it was asked for.
        request: Box<SummaryRequest>,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
    },
    /// A summary was asked for in vain. What is sent has not changed.
    CompactionFailed {
        /// How it was asked for.
        request: Box<SummaryRequest>,
        /// Why there is none, in words for a person.
        cause: String,
        /// Whether the run was stopped meanwhile: that is no failure of the model, and does not count as one.
        #[serde(default, skip_serializing_if = "is_false")]
        stopped: bool,
        /// Whether the vendor was asked for a summary of its own: the model is asked in words then.
        #[serde(default, skip_serializing_if = "is_false")]
        vendor: bool,
    },
    /// The vendor has refused a request that begins with its own summary: from now on the summary in words is sent
    /// to everybody, and no thinking of what was said so far.
    VendorSummaryRefused {
        /// Why, in words for a person.
        cause: String,
    },
    /// The vendor has refused a request because it does not fit into the window of the model.
    ContextOverflowed {
        /// How many tokens the window has, if the vendor has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// How many tokens the request had, if the vendor has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
        /// How many it had by the estimate.
        estimated: u64,
    },
    /// The program wants these words in each summary, as they are.
    ContextPinned {
        /// The words.
        text: String,
    },
}

/// What the answer of a run is to be, if it is to be more than words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WantedAnswer {
    /// The JSON Schema that it has to fit; `None` if it may be any words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// How often the model may answer anew after its answer did not fit the schema.
    pub tries: u32,
    /// How often it may after a function of the program has not accepted its answer; `None` if no function looks
    /// at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifications: Option<u32>,
}

/// What looks at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerCheck {
    /// Its [schema](WantedAnswer::schema), and the type that it is read as.
    Schema,
    /// The function of the program.
    Verifier,
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
        /// Whether it may run again if nobody knows how it ended.
        #[serde(default)]
        repeat: Repeat,
        /// Who decided it.
        #[serde(default)]
        by: Decider,
        /// What its tool had said of the call, if it says something: the call runs only if it still
        /// says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reviewed: Option<Arc<Reviewed>>,
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
        always: Option<Box<Always>>,
        /// What the question said of the tool's [definition](crate::policy::Question::definition): the answer
        /// allows a call of the tool that is described so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        definition: Option<String>,
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
    /// Nobody has answered in the time that there was for it.
    Expired,
    /// The call itself: its arguments cannot be read, or there is no such tool.
    Call,
    /// Code of the program that should have decided panicked.
    Fault,
}

/// What a person has allowed for more than one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Always {
    /// For which calls of the tool.
    pub scope: Scope,
    /// The tool.
    pub tool: String,
    /// Why the person was asked: a question for another reason is asked anew.
    pub reasons: Vec<Reason>,
    /// In whose runs it holds. With nobody named, it holds in those that the agent's own approver is
    /// asked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

impl Always {
    /// For the calls of this scope of this tool, if they are asked about for these reasons.
    pub fn new(scope: Scope, tool: impl Into<String>, reasons: Vec<Reason>) -> Self {
        Self { scope, tool: tool.into(), reasons, person: None }
    }

    /// Holds only in the runs that bring this person's approver.
    #[must_use]
    pub fn for_person(mut self, person: Option<String>) -> Self {
        self.person = person;
        self
    }
}

/// Why a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reason {
    /// Who wants a person to decide.
    pub by: Decider,
    /// Why, in words for the person.
    pub text: String,
}

impl Reason {
    /// A reason.
    pub fn new(by: Decider, text: impl Into<String>) -> Self {
        Self { by, text: text.into() }
    }
}

/// Whether a call may run again if nobody knows how it ended: told from what its tool declared when
/// the call was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repeat {
    /// It may not: then it is in doubt.
    #[default]
    Never,
    /// It may, since it only reads on this machine.
    Read,
    /// It may, since to repeat it has no further effect: it gets the same idempotency key.
    Idempotent,
    /// It goes on: it is a conversation of its own.
    Continues,
}

/// For what a call waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Wait {
    /// For what.
    #[serde(flatten)]
    pub awaited: Awaited,
    /// Until when an answer counts, in milliseconds since the beginning of 1970 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// What the agents that the call ran have spent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<CallSpent>>,
}

impl Wait {
    /// A wait without an end.
    pub fn new(awaited: Awaited) -> Self {
        Self { awaited, until: None, spent: None }
    }

    /// Says what the agents that the call ran have spent until then.
    #[must_use]
    pub(crate) fn having_spent(mut self, spent: Option<Box<CallSpent>>) -> Self {
        self.spent = spent;
        self
    }

    /// Lets an answer count only until then, in milliseconds since the beginning of 1970 in UTC.
    #[must_use]
    pub fn until(mut self, until: Option<u64>) -> Self {
        self.until = until;
        self
    }
}

/// What a call can wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Awaited {
    /// Somebody decides whether it may run.
    Approval {
        /// The question as it is shown, a `policy::Question` as JSON.
        question: Value,
        /// Whether the call may run again if nobody knows how it ended.
        repeat: Repeat,
        /// What its tool has said of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Box<Review>>,
    },
    /// The program gives its result: the call was handed to it.
    Result,
    /// Its tool has asked something, and is called again with the answer.
    Answer {
        /// What the tool asks, in words for a person.
        question: String,
        /// What the tool wants back with the answer.
        token: Value,
        /// The JSON Schema of the answer, if the tool has said it: see
        /// [`ToolError::with_form`](crate::ToolError::with_form). An answer is not checked against it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Value>,
    },
    /// An agent that the call runs has calls that wait, which are answered in its own conversation; or it could
    /// not go on.
    Agent {
        /// The name of that conversation.
        conversation: String,
        /// Whether the agent could not go on, since the conversation was open elsewhere or the journal has
        /// failed. Nobody has to answer then: [`Chat::resume`](crate::Chat::resume) tries again.
        #[serde(default, skip_serializing_if = "is_false")]
        cut_off: bool,
    },
}

/// What the agents that a call runs have spent, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CallSpent {
    /// How many times a model was asked.
    pub turns: u32,
    /// How many calls have started.
    pub tool_calls: u32,
    /// Tokens, as far as they are known.
    pub usage: Usage,
    /// What the known tokens cost whose price is known, in millionths of a millionth of the currency.
    pub cost: u64,
    /// Whether an answer broke off, which has cost more than was told.
    #[serde(skip_serializing_if = "is_false")]
    pub broke_off: bool,
    /// Whether an answer came without the tokens sent.
    #[serde(skip_serializing_if = "is_false")]
    pub unknown_input: bool,
    /// Whether an answer came without the tokens said.
    #[serde(skip_serializing_if = "is_false")]
    pub unknown_output: bool,
    /// Why nobody knows what an answer has cost, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_cost: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Entry {
    /// The first format of facts that knows all of this one.
    pub(super) fn format(&self) -> u32 {
        let is_of_the_first = match self {
            Self::Steered { .. }
            | Self::AnswerWanted { .. }
            | Self::AnswerAccepted {}
            | Self::AnswerRejected { .. }
            | Self::ToolsFound { .. }
            | Self::ContextCleared { .. }
            | Self::ContextCompacted { .. }
            | Self::CompactionFailed { .. }
            | Self::VendorSummaryRefused { .. }
            | Self::ContextOverflowed { .. }
            | Self::ContextPinned { .. }
            | Self::CallFinished { spent: Some(_), .. }
            | Self::CallDecided {
                decision: Decision::Allow { by: Decider::Person { definition: Some(_), .. }, .. },
                ..
            }
            | Self::CallWaits { wait: Wait { awaited: Awaited::Agent { .. }, .. }, .. }
            | Self::CallWaits { wait: Wait { spent: Some(_), .. }, .. } => false,
            Self::Given { transcript } => {
                transcript.messages().iter().all(Message::is_of_the_first_format)
            }
            Self::UserSaid { message, .. } => message.is_of_the_first_format(),
            Self::Resumed { message, .. }
            | Self::ModelReplied { message, .. }
            | Self::Interrupted { message, .. } => {
                message.as_ref().is_none_or(Message::is_of_the_first_format)
            }
            Self::CallFinished { result, .. }
            | Self::CallSettled { result, .. }
            | Self::CallEnded { result, .. } => result.is_of_the_first_format(),
            _ => true,
        };
        if is_of_the_first { 1 } else { 2 }
    }
}

/// The limits of one run, as plain data. `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunLimits {
    /// Times that the model is asked.
    pub turns: Option<u32>,
    /// Milliseconds that it takes.
    pub time: Option<u64>,
    /// Calls in a row that fail.
    pub failed_calls: Option<u32>,
    /// Turns in which the model hears the same again.
    pub repetitions: Option<u32>,
    /// Calls of one answer that run.
    pub calls_per_turn: Option<u32>,
    /// Tools that may say the same for ever.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub polling: BTreeSet<String>,
    /// Calls that run.
    pub tool_calls: Option<u32>,
    /// Tokens that are sent.
    pub input_tokens: Option<u64>,
    /// Tokens that the model says.
    pub output_tokens: Option<u64>,
    /// Money.
    pub cost: Option<f64>,
    /// Whether a model of which nobody knows what it costs is refused.
    pub refuse_unknown_cost: bool,
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
