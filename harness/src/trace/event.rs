//! What is written down of a run.

use serde::{Deserialize, Serialize};

use crate::{
    journal::{AnswerCheck, Decider, InterruptCause, Limit},
    message::CallOutcome,
    provider::{AnswerWay, ContextTokens, StopReason, Usage},
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

/// One thing that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// The number of the format.
    pub v: u32,
    /// The run that it happened in. What happens to a conversation before a run begins, such as that
    /// it is opened, read again or answered, has the run that follows, if one does.
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
        /// The name of the conversation in its journal, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        journaled: Option<String>,
        /// How many messages the conversation had before.
        #[serde(default, skip_serializing_if = "is_zero")]
        earlier: usize,
        /// What the user said, with a line for each file; not there if a run was resumed.
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
    /// A call waits to begin, since as many calls of its tool run as may run at once.
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
        /// How the model was told what its answer has to be, if it had to fit a schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer_way: Option<AnswerWay>,
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
        /// How long the call had waited for it, in milliseconds by the clocks of those who wrote the
        /// two facts; not there if it did not wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether it was written elsewhere, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// A call cannot go on until somebody outside of the run has answered.
    CallWaits {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// For what.
        awaited: WaitsFor,
        /// Why a person is asked, or what the tool asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// Since when, in milliseconds since 1970 in UTC.
        since_ms: u64,
        /// Until when an answer counts, in milliseconds since 1970 in UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<u64>,
    },
    /// What a tool has asked was answered: it is called again.
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
        /// Whether it was written elsewhere, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// The program has said what became of a call that waited or was in doubt, or the time for it
    /// is over.
    CallSettled {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// What became of it; [`InDoubt`](CallOutcome::InDoubt) if nobody has said it in time.
        outcome: CallOutcome,
        /// What the model reads of it.
        text: String,
        /// The files that came with it, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// Who said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When it was said, in milliseconds since 1970 in UTC.
        at_ms: u64,
        /// For what the call had waited; not there if it was in doubt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaited: Option<WaitsFor>,
        /// How long the call had waited for it, as of [`CallDecided`](Self::CallDecided).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Whether it was written elsewhere, and this conversation has read it.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// Of a call that was in doubt it is known now that nothing of it has happened: it runs.
    CallCleared {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// What was decided about a call no longer holds: it is decided anew.
    CallUndecided {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// What a person had allowed by *always* was taken back.
    GrantRevoked {
        /// The id of the call that the person was asked about.
        call: String,
        /// For what it held, in the words that the person read.
        scope: String,
    },
    /// A tool's own way to find out what became of a call has failed: the call is in doubt.
    ReconcileFailed {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// How it failed.
        fault: ReconcileFault,
        /// What it said, or what was wrong.
        error: String,
    },
    /// The conversation was read again while a run was going on, of which nobody knows how it ended.
    Reopened {
        /// The ids of the calls that had started and are in doubt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        in_doubt: Vec<String>,
        /// The ids of the calls that had started and run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs_again: Vec<String>,
    },
    /// The conversation was begun with the first facts of another one.
    Forked {
        /// The name of the other one.
        from: String,
        /// How many facts they share.
        facts: u64,
    },
    /// A conversation was to be held for this process, or the hold was worth nothing: somebody else
    /// has gone on with the conversation.
    Hold {
        /// The name of the conversation.
        conversation: String,
        /// What keeps it, by [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// What became of it.
        outcome: HoldOutcome,
        /// How long it took, in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_us: Option<u64>,
        /// Why it is not held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The library tried to write facts into the journal. The time includes reading facts that others had
    /// written first, second tries, and reading back.
    Appended {
        /// The name of the conversation.
        conversation: String,
        /// What keeps it, by [`Journal::system`](crate::journal::Journal::system).
        journal: String,
        /// How many facts.
        facts: usize,
        /// How many bytes of JSON text they have.
        bytes: usize,
        /// What became of them.
        outcome: AppendOutcome,
        /// How long it took, in microseconds.
        took_us: u64,
        /// Why they were not written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The user said something while the run went on, and the run has heard it.
    Steered {
        /// What was said.
        text: String,
    },
    /// The answer of the model is what the program wants.
    AnswerAccepted {},
    /// The answer of the model is not what the program wants.
    AnswerRejected {
        /// What found that out.
        by: AnswerCheck,
        /// All that is wrong with it.
        faults: Vec<String>,
        /// Whether the model is told, and answers anew.
        again: bool,
    },
    /// The model is told of more tools from now on.
    ToolsFound {
        /// The id of the call that has searched for them.
        call: String,
        /// Their names.
        tools: Vec<String>,
    },
    /// Results and arguments of calls are no longer sent whole.
    ContextCleared {
        /// How many results.
        results: usize,
        /// Of how many calls the arguments.
        #[serde(default, skip_serializing_if = "is_zero")]
        arguments: usize,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
    },
    /// A summary is sent in the place of the oldest part.
    ContextCompacted {
        /// For how many messages it stands.
        messages: u64,
        /// The summary; where the vendor's own is sent, what stands for it elsewhere.
        text: String,
        /// Whether the vendor's own is sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        vendor: bool,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
        /// Tokens that the summary has cost.
        usage: Usage,
        /// The model that has made it.
        model: String,
    },
    /// A summary was asked for in vain.
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
    /// The program wants words in each summary.
    ContextPinned {
        /// The words.
        text: String,
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
        /// The files that came with it, such as `picture, image/png, 68 bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
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

/// For what a call waits: see [`Awaited`](crate::journal::Awaited).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitsFor {
    /// Somebody decides whether it may run.
    Approval,
    /// The program gives its result.
    Result,
    /// Its tool has asked something.
    Answer,
    /// An agent that it runs waits.
    Agent,
}

/// What became of facts that were to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AppendOutcome {
    /// They are in the journal.
    Written,
    /// They are in the journal: it was not known what had become of them, and they were found there
    /// when it was read back.
    ReadBack,
    /// Somebody else has gone on with the conversation: they are not written.
    Conflict,
    /// The journal has failed: whether they are written is found out by the next append.
    Failed,
    /// The run was stopped, its future was dropped, or its time was over. Whether they are written
    /// is found out by the next append.
    Interrupted,
}

/// What became of a conversation that was to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HoldOutcome {
    /// It is held.
    Taken,
    /// It is held here already, or by a process that lives.
    Busy,
    /// The journal has failed.
    Failed,
    /// Nobody waited for it to the end.
    Interrupted,
    /// Somebody else has gone on with it while it was held.
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
