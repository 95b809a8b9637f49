//! The events of a trace.

use serde::{Deserialize, Serialize};

use crate::{
    journal::{AnswerCheck, Decider, InterruptCause, LimitKind},
    message::CallOutcome,
    provider::{ContextTokens, OutputMode, StopReason, Usage},
    tool::{ReconcileFault, SideEffects},
};

/// The number of the format.
pub const SCHEMA: u32 = 1;

/// A call of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallOfRun {
    /// The run.
    pub run: String,
    /// The call's id.
    pub call: String,
}

/// One event and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// The number of the format.
    pub v: u32,
    /// The run of the event. Events of a conversation before a run begins, for example when it is
    /// opened, read again or answered, have the run that follows, if there is one.
    pub run: String,
    /// Microseconds since the trace began, on a monotonic clock.
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
        /// The name of the provider that is asked.
        provider: String,
        /// The model that is asked.
        model: String,
        /// The names of the tools.
        tools: Vec<String>,
        /// The conversation of the run: the id of its first message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// The name of the conversation in its journal, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        journaled: Option<String>,
        /// The number of messages of the conversation before the run.
        #[serde(default, skip_serializing_if = "is_zero")]
        earlier: usize,
        /// The message of the user, with a line for each file; left out if a run was resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
        /// The call of another run that has started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<CallOfRun>,
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
    /// A call waits to begin, because as many calls of its tool run as may run at once.
    CallQueued {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// A call began.
    CallStarted {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments, as JSON text.
        arguments: String,
        /// Whether it began while the model was still answering.
        early: bool,
    },
    /// A tool reported its progress, or is tried again.
    CallProgressed {
        /// The call's id.
        call: String,
        /// Its words.
        message: String,
    },
    /// The answer is complete.
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
        /// The parts of the tokens that were sent.
        context: ContextTokens,
        /// The name of the provider that answered.
        provider: String,
        /// The model that answered.
        model: String,
        /// The vendor's id of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<String>,
        /// How the model was given the schema of its answer, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer_way: Option<OutputMode>,
    },
    /// It was decided whether a call may run.
    CallDecided {
        /// The call's id.
        call: String,
        /// The side effects that its tool declares, if it may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_effects: Option<SideEffects>,
        /// The reason, if the call may not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
        /// Who decided about the call.
        #[serde(default)]
        by: Decider,
        /// How long the call had waited for the decision, in milliseconds by the clocks of the processes
        /// that wrote the two facts; left out if it did not wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact that this event is about, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// A call waits until somebody outside of the run answers.
    CallWaits {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// What it waits for.
        awaited: WaitsFor,
        /// The reason why a person is asked, or the question of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// Since when, in milliseconds since 1970 in UTC.
        since_ms: u64,
        /// Until when an answer counts, in milliseconds since 1970 in UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<u64>,
    },
    /// The question of a tool was answered: the tool is called again.
    CallAnswered {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The answer, as JSON text.
        answer: String,
        /// Who gave it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When it was given, in milliseconds since 1970 in UTC.
        at_ms: u64,
        /// How long the call had waited for it, as of [`CallDecided`](Self::CallDecided).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact that this event is about, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// The program has given the outcome of a call that waited or was in doubt, or the time for it is
    /// over.
    CallSettled {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The outcome; [`InDoubt`](CallOutcome::InDoubt) if nobody has given one in time.
        outcome: CallOutcome,
        /// What the model reads of it.
        text: String,
        /// The files of the result, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// Who said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When it was said, in milliseconds since 1970 in UTC.
        at_ms: u64,
        /// What the call had waited for; left out if it was in doubt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaited: Option<WaitsFor>,
        /// How long the call had waited for it, as of [`CallDecided`](Self::CallDecided).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether another process wrote the fact that this event is about, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// A call was in doubt, and now it is known that nothing of it has happened, or a call did not begin when its start was
    /// recorded: it is to run.
    CallCleared {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// The decision about a call no longer holds: the call is decided again.
    CallUndecided {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// An *always* of a person was taken back.
    GrantRevoked {
        /// The id of the call that the person was asked about.
        call: String,
        /// Its scope, in the words that the person read.
        scope: String,
    },
    /// The function with which a tool finds out what became of a call has failed: the call is in doubt.
    ReconcileFailed {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// How it failed.
        fault: ReconcileFault,
        /// Its error.
        error: String,
    },
    /// The conversation was read again after a run whose end is unknown.
    Reopened {
        /// The ids of the calls that had started and are in doubt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        in_doubt: Vec<String>,
        /// The ids of the calls that had started and run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs_again: Vec<String>,
    },
    /// The conversation began with the first facts of another one.
    Forked {
        /// The name of the other one.
        from: String,
        /// How many facts they share.
        facts: u64,
    },
    /// This process tried to hold a conversation, or lost its hold because another process has
    /// continued the conversation.
    Hold {
        /// The name of the conversation.
        conversation: String,
        /// The storage system, as of [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// The outcome.
        outcome: HoldOutcome,
        /// How long it took, in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_us: Option<u64>,
        /// Why it is not held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The library tried to write facts into the journal. The time includes reading facts that other
    /// processes had written first, retries, and reading back.
    Appended {
        /// The name of the conversation.
        conversation: String,
        /// The storage system, as of [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// How many facts.
        facts: usize,
        /// How many bytes of JSON text they have.
        bytes: usize,
        /// The outcome.
        outcome: AppendOutcome,
        /// How long it took, in microseconds.
        took_us: u64,
        /// Why they were not written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The user said something during the run, and the run has received it.
    Steered {
        /// What was said.
        text: String,
    },
    /// The answer of the model passed all checks of the program.
    AnswerAccepted {},
    /// A check rejected the answer of the model.
    AnswerRejected {
        /// The check.
        by: AnswerCheck,
        /// All faults.
        faults: Vec<String>,
        /// Whether the model is told and answers again.
        again: bool,
    },
    /// The model gets more tools from now on.
    ToolsFound {
        /// The id of the call that has searched for them.
        call: String,
        /// Their names.
        tools: Vec<String>,
    },
    /// Results and arguments of calls were cleared in what is sent.
    ContextCleared {
        /// How many results.
        results: usize,
        /// Of how many calls the arguments.
        #[serde(default, skip_serializing_if = "is_zero")]
        arguments: usize,
        /// The estimated tokens of the next request before.
        before: u64,
        /// The estimated tokens of the next request now.
        after: u64,
    },
    /// A summary replaces the oldest part in what is sent.
    ContextCompacted {
        /// The number of messages that it replaces.
        messages: u64,
        /// The summary; if the vendor's own is sent, the one as text for other models.
        text: String,
        /// Whether the vendor's own summary is sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        vendor: bool,
        /// The estimated tokens of the next request before.
        before: u64,
        /// The estimated tokens of the next request now.
        after: u64,
        /// Tokens that the summary has cost.
        usage: Usage,
        /// The model that made the summary.
        model: String,
    },
    /// A request for a summary failed.
    CompactionFailed {
        /// Why.
        cause: String,
        /// Tokens that it has cost.
        usage: Usage,
    },
    /// The vendor has refused a request that begins with its own summary.
    VendorSummaryRefused {
        /// Why.
        cause: String,
    },
    /// A request did not fit into the window of the model.
    ContextOverflowed {
        /// How many tokens the window has, if the vendor has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// How many the request had, if the vendor has said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// The program pinned words, which are in each summary.
    ContextPinned {
        /// The words.
        text: String,
    },
    /// The instructions, the tools or their form have changed for a model that binds its reasoning to them.
    PrefixChanged {
        /// What has changed.
        change: String,
        /// Whether the change is sent behind the messages so far.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        appended: bool,
        /// Of how many messages the reasoning is not sent any more.
        left_out: u64,
        /// The words of the vendor, if it has refused the reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<String>,
    },
    /// A call that was told to stop and continued has ended.
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
        /// The outcome.
        outcome: CallOutcome,
        /// What the model reads of it.
        text: String,
        /// The files of the result, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// How long it ran, in microseconds. A call that began early may have ended long before
        /// this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_us: Option<u64>,
    },
    /// A call that began early is not in the complete answer; its result is discarded.
    CallDropped {
        /// The call's id.
        call: String,
    },
    /// The provider is asked again, after a wait.
    Retried {
        /// The number of the next attempt. It counts from 1 for each provider in each turn.
        attempt: u32,
        /// The highest number of attempts at this provider in this turn.
        of: u32,
        /// The wait, in microseconds.
        wait_us: u64,
        /// What failed.
        cause: String,
    },
    /// A provider is down, and another one is asked.
    FellBack {
        /// The provider that is down.
        from: String,
        /// The name of the provider that is asked.
        to: String,
        /// What failed.
        cause: String,
    },
    /// The server has refused a member of the request, which is left out from now on.
    ParameterDropped {
        /// The name of the member.
        parameter: String,
        /// The refusal.
        cause: String,
    },
    /// The answer broke off and begins again: its parts so far are discarded.
    Discarded {
        /// What failed.
        cause: String,
    },
    /// Four fifths of a limit are used.
    LimitNear {
        /// Which limit.
        limit: LimitKind,
        /// How much.
        detail: String,
    },
    /// A limit cannot be fully enforced.
    LimitUnknown {
        /// Which limit.
        limit: LimitKind,
        /// Why.
        detail: String,
    },
    /// The run was stopped.
    Interrupted {
        /// What stopped it.
        cause: InterruptCause,
        /// The text of the incomplete answer.
        text: String,
        /// Its complete calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<TracedCall>,
        /// The tokens of that answer: a lower bound.
        usage: Usage,
    },
    /// The run is over.
    RunEnded {
        /// How, in words.
        outcome: String,
        /// Whether the model answered.
        answered: bool,
        /// The number of complete answers.
        turns: u32,
        /// The tokens of its own turns. Agents that its tools call have runs of their own.
        usage: Usage,
        /// The cost of these turns, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// Lines before this one were not written, because the writer was too slow. Only a written trace
    /// has this event; the trace in memory is complete.
    LinesLost {
        /// How many.
        lines: u64,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedCall {
    /// Its id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
}

/// What a call waits for: see [`Awaited`](crate::journal::Awaited).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitsFor {
    /// The decision whether the call may run.
    Approval,
    /// The result of the call, which the program gives.
    Result,
    /// The answer to a question of the tool.
    Answer,
    /// The agent that the call runs, which itself waits for one of these.
    Agent,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AppendOutcome {
    /// The facts are in the journal.
    Written,
    /// The outcome of the write was unknown, and the facts were found in the journal when it was read
    /// back.
    ReadBack,
    /// Another process has continued the conversation: the facts are not written.
    Conflict,
    /// The journal failed: the next append finds out whether the facts are written.
    Failed,
    /// The run was stopped, its future was dropped, or its time was over. The next append finds out
    /// whether the facts are written.
    Interrupted,
}

/// The outcome of holding a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HoldOutcome {
    /// The conversation is held.
    Taken,
    /// It is held already, here or by a process that is alive.
    Busy,
    /// The journal failed.
    Failed,
    /// The future was dropped before it was held.
    Interrupted,
    /// Another process has continued it while it was held.
    Lost,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
