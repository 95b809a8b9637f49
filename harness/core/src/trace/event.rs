//! The events of a trace.

use serde::{Deserialize, Serialize};

use crate::{
    journal::{AnswerCheck, Decider, InterruptCause, LimitKind},
    message::CallOutcome,
    provider::{ContextTokens, OutputMode, StopReason, Usage},
    tool::{ReconcileFault, SideEffects},
};

/// The version number of the trace format.
pub const SCHEMA: u32 = 1;

/// A call, and the run that contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallOfRun {
    /// The id of the run.
    pub run: String,
    /// The id of the call.
    pub call: String,
}

impl CallOfRun {
    /// The call with this id in the run with this id.
    pub fn new(run: impl Into<String>, call: impl Into<String>) -> Self {
        Self { run: run.into(), call: call.into() }
    }
}

/// One event and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// The version number of the trace format.
    pub v: u32,
    /// The id of the run. An event between two runs of a conversation has the id of the later run. Examples are the
    /// opening of the conversation and an answer to a waiting call.
    pub run: String,
    /// Microseconds since the trace began, on a monotonic clock.
    pub at_us: u64,
    /// The event itself. In JSON, the member `event` is the name of the event. The fields of the event are further
    /// members of the same object.
    #[serde(flatten)]
    pub what: Happened,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happened {
    /// A run began: the user sent a message, or the program resumed a stopped run.
    RunStarted {
        /// The time of day, in milliseconds since the Unix epoch.
        unix_ms: u64,
        /// The name of the provider that gets the requests.
        provider: String,
        /// The name of the requested model.
        model: String,
        /// The names of the tools that the model has.
        tools: Vec<String>,
        /// The id of the conversation, which is the id of its first message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The name of the conversation in its journal. `None` without a journal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        journaled: Option<String>,
        /// The number of messages before the run.
        #[serde(default, skip_serializing_if = "is_zero")]
        earlier: usize,
        /// The text of the user's message, with a line for each file. `None` if a run was resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
        /// The call that started this run. `None` if no call started the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<CallOfRun>,
    },
    /// A request is about to be sent to the model.
    TurnStarted {
        /// The number of the turn, from 1 in each run.
        turn: u32,
    },
    /// The first event of the model's answer arrived.
    AnswerBegan {
        /// The number of the turn, from 1 in each run.
        turn: u32,
    },
    /// A call waits because its tool already runs the maximum number of concurrent calls.
    CallQueued {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
    },
    /// A call started.
    CallStarted {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The arguments, as JSON text.
        arguments: String,
        /// Whether the call started before the model's answer was complete.
        early: bool,
    },
    /// A tool reported progress, or the library retries a call.
    CallProgressed {
        /// The id of the call.
        call: String,
        /// The text of the report.
        message: String,
    },
    /// The model's answer is complete.
    ModelReplied {
        /// The number of the turn, from 1 in each run.
        turn: u32,
        /// The text of the answer.
        text: String,
        /// The visible thinking of the model, if any.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
        /// The calls of the answer, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<TracedCall>,
        /// Why the model stopped.
        stop: StopReason,
        /// The tokens of this turn.
        usage: Usage,
        /// The number of tokens of each part of the request.
        context: ContextTokens,
        /// The name of the provider that answered.
        provider: String,
        /// The name of the model that answered.
        model: String,
        /// The vendor's id of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<String>,
        /// How the schema for the answer was sent to the model. `None` without a schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer_way: Option<OutputMode>,
    },
    /// The permissions, a person or another [decider](Decider) decided whether a call may run.
    CallDecided {
        /// The id of the call.
        call: String,
        /// The declared side effects of the tool, if the call may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_effects: Option<SideEffects>,
        /// The reason, if the call may not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
        /// Who decided.
        #[serde(default)]
        by: Decider,
        /// How long the call waited for the decision, in milliseconds. `None` if the call did not wait. One process may
        /// have recorded the beginning and another process the end, each with its own clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact of this event, and this process read the fact later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
    },
    /// A call waits for an answer from outside of the run.
    CallWaits {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// What the call waits for.
        awaited: WaitsFor,
        /// The reasons for the approval request, or the question of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// The beginning of the wait, in milliseconds since the Unix epoch.
        since_ms: u64,
        /// The deadline for an answer, in milliseconds since the Unix epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<u64>,
    },
    /// The library received the answer to a tool's question, and calls the tool again.
    CallAnswered {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The answer, as JSON text.
        answer: String,
        /// The person who gave the answer, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The time of the answer, in milliseconds since the Unix epoch.
        at_ms: u64,
        /// How long the call waited for the answer, in milliseconds: see [`CallDecided`](Self::CallDecided).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact of this event, and this process read the fact later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
    },
    /// The program set the outcome of a call that waited or was in doubt. Or the deadline of a waiting call expired.
    CallSettled {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The outcome; [`InDoubt`](CallOutcome::InDoubt) if the deadline expired.
        outcome: CallOutcome,
        /// The text of the result for the model.
        text: String,
        /// A line for each file of the result, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// The person who set the outcome, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The time at which the outcome was set, in milliseconds since the Unix epoch.
        at_ms: u64,
        /// What the call had waited for. `None` if the call was in doubt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaited: Option<WaitsFor>,
        /// How long the call waited for the outcome, in milliseconds: see [`CallDecided`](Self::CallDecided).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact of this event, and this process read the fact later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        elsewhere: bool,
    },
    /// A call may run now, because its first attempt had no effect. The first attempt was in doubt, or its start was
    /// recorded although the call did not begin.
    CallCleared {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
    },
    /// The decision about a call is no longer valid, and a new decision is needed.
    CallUndecided {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
    },
    /// The program revoked a grant. A person gave this grant with the answer *always*.
    GrantRevoked {
        /// The id of the call for which the person gave the grant.
        call: String,
        /// The scope of the grant, in the words that the person read.
        scope: String,
    },
    /// The tool's reconcile function failed, so the library does not know what the call did. The call stays in doubt.
    ReconcileFailed {
        /// The id of the call.
        call: String,
        /// The name of the tool.
        tool: String,
        /// How the function failed.
        fault: ReconcileFault,
        /// The error that the reconcile function returned.
        error: String,
    },
    /// The conversation was opened again after a run whose end is unknown.
    Reopened {
        /// The ids of the started calls that are in doubt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        in_doubt: Vec<String>,
        /// The ids of the started calls that run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs_again: Vec<String>,
    },
    /// The conversation was created as a fork of another conversation.
    Forked {
        /// The name of the other conversation.
        from: String,
        /// The number of shared facts.
        facts: u64,
    },
    /// This process tried to hold a conversation, or lost its hold because another process appended to the
    /// conversation. A hold shows other processes that the conversation is in use.
    Hold {
        /// The name of the conversation.
        conversation: String,
        /// The storage system: see [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// The outcome.
        outcome: HoldOutcome,
        /// The duration of the attempt, in microseconds. `None` if the hold was lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_us: Option<u64>,
        /// Why the conversation is not held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The library tried to append facts to the journal. The duration includes all retries, and all reads of the
    /// journal for this append.
    Appended {
        /// The name of the conversation.
        conversation: String,
        /// The storage system: see [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// The number of facts.
        facts: usize,
        /// The size of the facts' JSON text, in bytes.
        bytes: usize,
        /// The outcome.
        outcome: AppendOutcome,
        /// The duration, in microseconds.
        took_us: u64,
        /// Why the facts were not written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The run received a message that the user sent during the run.
    Steered {
        /// The text of the message.
        text: String,
    },
    /// The model's answer passed all checks of the program.
    AnswerAccepted {},
    /// The model's answer failed a check.
    AnswerRejected {
        /// The check that failed.
        by: AnswerCheck,
        /// All faults of the answer.
        faults: Vec<String>,
        /// Whether the model gets the faults and another attempt.
        again: bool,
    },
    /// A search found tools. All later requests contain these tools.
    ToolsFound {
        /// The id of the call that searched.
        call: String,
        /// The names of the tools.
        tools: Vec<String>,
    },
    /// Later requests contain shorter texts in place of the results and arguments of some calls.
    ContextCleared {
        /// The number of replaced results.
        results: usize,
        /// The number of calls whose arguments are replaced.
        #[serde(default, skip_serializing_if = "is_zero")]
        arguments: usize,
        /// The estimated tokens of the next request without the change.
        before: u64,
        /// The estimated tokens of the next request with the change.
        after: u64,
    },
    /// A summary replaces the oldest messages in later requests.
    ContextCompacted {
        /// The number of replaced messages.
        messages: u64,
        /// The summary as text. If requests contain the vendor's own summary, this text is for other models only.
        text: String,
        /// Whether later requests contain the vendor's own summary.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        vendor: bool,
        /// The estimated tokens of the next request without the change.
        before: u64,
        /// The estimated tokens of the next request with the change.
        after: u64,
        /// The tokens of the requests for the summary.
        usage: Usage,
        /// The model that made the summary.
        model: String,
    },
    /// A request for a summary failed.
    CompactionFailed {
        /// Why the request failed.
        cause: String,
        /// The tokens of the failed request.
        usage: Usage,
    },
    /// The vendor refused a request that begins with the vendor's own summary.
    VendorSummaryRefused {
        /// The reason for the refusal.
        cause: String,
    },
    /// A request did not fit into the model's window.
    ContextOverflowed {
        /// The number of tokens of the window, if the vendor stated it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// The number of tokens of the request, if the vendor stated it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// The program pinned a text. Every later summary contains the text.
    ContextPinned {
        /// The pinned text.
        text: String,
    },
    /// The instructions, the tools or the tools' format changed. This event occurs only if the model refuses or drops
    /// its earlier reasoning after the change.
    PrefixChanged {
        /// What changed, as text.
        change: String,
        /// Whether later requests contain the change behind the messages so far, and not before the first message.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        appended: bool,
        /// The number of messages whose reasoning is no longer sent.
        left_out: u64,
        /// The vendor's message, if the vendor refused the reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<String>,
    },
    /// The library had asked a call to stop, but the call continued to run. This call has now ended.
    CallEnded {
        /// The id of the call.
        call: String,
        /// How the call ended.
        outcome: CallOutcome,
        /// The text of the result for the model.
        text: String,
    },
    /// A call got its result.
    CallFinished {
        /// The id of the call.
        call: String,
        /// The outcome of the call.
        outcome: CallOutcome,
        /// The text of the result for the model.
        text: String,
        /// A line for each file of the result, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// How long the call ran, in microseconds. A call that started early may have ended long before this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_us: Option<u64>,
    },
    /// The model's complete answer lacks a call that started early. The library discards the call's result.
    CallDropped {
        /// The id of the call.
        call: String,
    },
    /// A request failed. The library waits, and then sends the request again.
    Retried {
        /// The number of the next attempt. In each turn, the attempts at each provider are counted from 1.
        attempt: u32,
        /// The maximum number of attempts at this provider in this turn.
        of: u32,
        /// The wait before the next attempt, in microseconds.
        wait_us: u64,
        /// Why the request failed.
        cause: String,
    },
    /// A provider failed, and a fallback provider gets the request.
    FellBack {
        /// The name of the provider that failed.
        from: String,
        /// The name of the fallback provider.
        to: String,
        /// Why the provider failed.
        cause: String,
    },
    /// The server refused a member of the request. Later requests leave the member out.
    ParameterDropped {
        /// The name of the member.
        parameter: String,
        /// The server's refusal.
        cause: String,
    },
    /// The answer broke off. The library discards the received parts, and requests the answer again.
    Discarded {
        /// Why the answer broke off.
        cause: String,
    },
    /// Four fifths of a limit are used up.
    LimitNear {
        /// The quantity that the limit restricts.
        limit: LimitKind,
        /// How much is used up, as text.
        detail: String,
    },
    /// A limit cannot be fully enforced.
    LimitUnknown {
        /// The quantity that the limit restricts.
        limit: LimitKind,
        /// Why the limit cannot be enforced.
        detail: String,
    },
    /// The run was stopped.
    Interrupted {
        /// What stopped the run.
        cause: InterruptCause,
        /// The text of the incomplete answer.
        text: String,
        /// The complete calls of the incomplete answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<TracedCall>,
        /// A lower bound for the tokens of the incomplete answer.
        usage: Usage,
    },
    /// The run is over.
    RunEnded {
        /// How the run ended, as text.
        outcome: String,
        /// Whether the run ended with an answer of the model.
        answered: bool,
        /// The number of complete answers of the model.
        turns: u32,
        /// The tokens of this run's own turns. The runs of agents inside this run's calls are counted separately.
        usage: Usage,
        /// The cost of this run's own turns, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// Lines before this event were not written, because the writer was too slow. Only a trace in a file or writer has
    /// this event; the trace in memory is complete.
    LinesLost {
        /// The number of missing lines.
        lines: u64,
    },
    /// An event that this version of the library does not know.
    #[serde(other)]
    Unknown,
}

/// A tool call in a model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedCall {
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// What a call waits for: see [`Awaited`](crate::journal::Awaited).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitsFor {
    /// A decision whether the call may run.
    Approval,
    /// The result of the call, which the program provides.
    Result,
    /// The answer to a question of the tool.
    Answer,
    /// The agent inside the call. Some of the agent's own calls wait.
    Agent,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AppendOutcome {
    /// The facts are in the journal.
    Written,
    /// The outcome of the write was unknown. The library then read the journal, and found the facts there.
    ReadBack,
    /// Another process appended to the conversation first, so the facts were not written.
    Conflict,
    /// The journal failed. The next append finds out whether the facts were written.
    Failed,
    /// The run was stopped, its future was dropped, or its time limit expired. The next append finds out whether the
    /// facts were written.
    Interrupted,
}

/// The outcome of an attempt to hold a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HoldOutcome {
    /// The conversation is held now.
    Taken,
    /// The conversation is already held, by this process or another living process.
    Busy,
    /// The journal failed.
    Failed,
    /// The future was dropped before the hold was complete.
    Interrupted,
    /// Another process appended to the conversation during the hold.
    Lost,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
