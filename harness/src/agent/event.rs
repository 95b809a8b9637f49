//! What a watcher of a run sees.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EventBuf, Outcome};
use crate::{
    journal::{AnswerCheck, Limit, LimitScope, Wait},
    message::{Citation, Media, Message, ToolCall, ToolResult},
    provider::{StopReason, Usage},
};

/// A call that runs an agent: a step of the way to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCall {
    /// The name of the tool.
    pub tool: Box<str>,
    /// The id of the call.
    pub call: Box<str>,
}

/// One thing that happens in a run, shown as it happens.
///
/// It borrows what it shows, so that [`Sending::on_event`](super::Sending::on_event) costs no allocation.
/// To keep it, [own](Self::into_owned) it. As JSON it is an object with a `type` in snake case:
/// see [`EventBuf`](super::EventBuf).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run has begun. A run that fails before it begins, because the journal does not answer for one,
    /// has no such event, and nothing of it is in the conversation.
    RunStarted {
        /// What the user has said; `None` in a run that [goes on](super::Chat::resume).
        said: Option<&'a Message>,
    },
    /// The model is asked.
    TurnStarted {
        /// Counts from 1 in each run.
        turn: u32,
    },
    /// The provider failed in a way that passes, and is asked again after a wait. A terminal may
    /// say `retrying in 2 s (2 of 3): 529 overloaded`; to stop the run ends the wait at once.
    Retrying {
        /// The number of the try that follows. Each turn's question to a provider counts from 1.
        attempt: u32,
        /// How many there may be of this question to this provider.
        of: u32,
        /// How long it waits.
        wait: Duration,
        /// What failed, in words.
        cause: &'a str,
    },
    /// A provider is down, and another one is asked.
    FallingBack {
        /// Who is down.
        from: &'a str,
        /// Who is asked now.
        to: &'a str,
        /// What failed, in words.
        cause: &'a str,
    },
    /// The answer of this turn broke off and begins again: what was shown of it does not count.
    Discarded {
        /// What failed, in words.
        cause: &'a str,
    },
    /// The model says more.
    Text(&'a str),
    /// Where words of the model come from, told after them.
    Citation(&'a Citation),
    /// The model has made a picture.
    Image(&'a Media),
    /// The model has said something aloud. Its words come as text.
    Audio(&'a Media),
    /// The model thinks aloud.
    Reasoning(&'a str),
    /// A call was denied: it does not run, and the model is told why.
    ToolDenied {
        /// The call.
        call: &'a ToolCall,
        /// Why, and what the program can do to allow it.
        reason: &'a str,
    },
    /// A call may begin and waits for a place, since as many calls of its tool run in this program as may run
    /// [at once](crate::Tool::at_once). [`ToolCall`](Self::ToolCall) follows when it begins. If the run is
    /// stopped before, the call has not begun.
    ToolQueued(&'a ToolCall),
    /// A call begins: its name and its whole arguments. Exactly one [`ToolResult`](Self::ToolResult)
    /// or [`ToolDropped`](Self::ToolDropped) of the same call follows, however the run ends, unless its
    /// tool asks something and the call [waits](Self::ToolWaits).
    ToolCall(&'a ToolCall),
    /// A call waits for somebody outside of the run to decide about it, to give its result, or to answer
    /// its tool. The run goes on as far as it can and ends as [`Outcome::Waiting`].
    ToolWaits {
        /// The call.
        call: &'a ToolCall,
        /// For what it waits.
        wait: &'a Wait,
    },
    /// A running tool says how far it has come.
    ToolProgress {
        /// The call's id.
        call: &'a str,
        /// Its words.
        message: &'a str,
    },
    /// A call has its result. Results of calls that run together come in the order in which they
    /// end. Calls that do not begin, because there are more than
    /// [`calls_per_turn`](crate::policy::Guardrails::calls_per_turn) or because an equal call still
    /// runs, have theirs without a [`ToolCall`](Self::ToolCall).
    ToolResult {
        /// The call.
        call: &'a ToolCall,
        /// What became of it.
        result: &'a ToolResult,
        /// How long it ran.
        elapsed: Duration,
    },
    /// A call that began while the model was still speaking is not wanted after all: the answer
    /// began anew, or was cut off before it. It only read, and its result is thrown away.
    ToolDropped {
        /// The call.
        call: &'a ToolCall,
    },
    /// A call of an earlier turn or run, which was told to stop and could not be stopped, has ended
    /// now. The model is told with the next message or results.
    ToolEnded {
        /// The name of the tool.
        tool: &'a str,
        /// How it ended; it names the call.
        result: &'a ToolResult,
    },
    /// Four fifths of a limit or more are used. It comes once in a run for each limit.
    LimitNear {
        /// Which limit.
        limit: Limit,
        /// Whose limit.
        scope: LimitScope,
        /// How much, in words for a person.
        detail: &'a str,
    },
    /// A limit is set and cannot be held in full, because it is not known how much is used. It
    /// comes once in a run for each limit.
    LimitUnknown {
        /// Which limit.
        limit: Limit,
        /// Whose limit.
        scope: LimitScope,
        /// Why, in words for a person.
        detail: &'a str,
    },
    /// The run has heard what the user said meanwhile: the model is told when it is asked next.
    Steered {
        /// What was said.
        message: &'a Message,
    },
    /// The model's answer is not what the program wants. If a try is left, the model is told and answers anew.
    AnswerRejected {
        /// What found that out.
        by: AnswerCheck,
        /// All that is wrong with it.
        faults: &'a [String],
        /// What the model is told; `None` if no try is left.
        message: Option<&'a Message>,
    },
    /// The model is told of more tools from its next turn on, since it has [searched](crate::tool::ToolSearch) for them.
    ToolsFound {
        /// The call that has searched.
        call: &'a ToolCall,
        /// The names of the tools that were not found before.
        tools: &'a [String],
    },
    /// Old results of tools that only read, and long arguments of old calls that went well, are no longer sent whole,
    /// since the window gets full.
    ContextCleared {
        /// How many results.
        results: usize,
        /// Of how many calls the arguments.
        arguments: usize,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
    },
    /// The model is asked to sum up the oldest part of the conversation, since the window gets full.
    /// [`ContextCompacted`](Self::ContextCompacted) or [`CompactionFailed`](Self::CompactionFailed) follows, unless the
    /// run is stopped meanwhile.
    Compacting,
    /// A summary is sent from now on in the place of the oldest part of the conversation.
    ContextCompacted {
        /// For how many messages of the transcript it stands, from the first one on.
        messages: usize,
        /// Whether it is [the vendor's own](crate::context::Window::vendor_summaries). If not, the model has given it
        /// in words: the program has not asked for the vendor's, the vendor has none, or it has failed.
        vendor: bool,
        /// How many tokens the next request would have had before: an estimate.
        before: u64,
        /// How many it has now.
        after: u64,
    },
    /// A summary could not be made or used. What is sent has not changed. If it was to be one of the vendor's own, the model is
    /// asked for one in words next.
    CompactionFailed {
        /// Why, in words.
        cause: &'a str,
    },
    /// The vendor has refused a request that begins with its own summary. The model is asked again, with the summary in
    /// words.
    VendorSummaryRefused {
        /// Why, in words.
        cause: &'a str,
    },
    /// The model's answer of this turn is complete.
    TurnEnded {
        /// Counts from 1 in each run.
        turn: u32,
        /// Why the model stopped.
        stop: StopReason,
        /// Tokens of this turn.
        usage: &'a Usage,
    },
    /// What happens in the run of an agent that a call of this run runs, at any depth. What it says and
    /// does is no part of what this run says and does, and its usage is part of
    /// [`Reply::spent`](super::Reply::spent) alone. The events of one agent come in order.
    OfAgent {
        /// The calls on the way to it, the one of this run first.
        path: &'a [AgentCall],
        /// What happens there.
        event: &'a EventBuf,
    },
    /// The run is over.
    RunEnded {
        /// How.
        outcome: Outcome,
        /// Tokens of all its own turns: what agents have used that its tools call is part of
        /// [`Reply::spent`](super::Reply::spent).
        usage: &'a Usage,
    },
    /// An event that a later version of the library has written, and that this version does not know. It
    /// comes only from JSON that was read back, never from a run.
    Unknown {
        /// The `type` of the event.
        kind: &'a str,
        /// All members of the event.
        json: &'a Map<String, Value>,
    },
}
