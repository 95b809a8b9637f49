//! The events of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event_json::EventBuf;
use crate::Outcome;
use harness_core::{
    journal::{AnswerCheck, LimitKind, LimitScope, Wait},
    message::{Citation, Media, Message, ToolCall, ToolResult},
    provider::{StopReason, Usage},
};

/// A call that runs an agent: one step of the path to that agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCall {
    /// The name of the tool.
    pub tool: Box<str>,
    /// The id of the call.
    pub call: Box<str>,
}

/// One thing that happens in a run, reported when it happens.
///
/// It borrows its values, so that [`Run::on_event`](crate::Run::on_event) costs no
/// allocation. [`into_owned`](Self::into_owned) makes a copy that can be kept. As JSON, an event is
/// an object with a `type` in snake case: see [`EventBuf`](crate::EventBuf).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run has begun. A run that fails before it begins, for example because the journal does
    /// not answer, has no such event and leaves the conversation as it was.
    RunStarted {
        /// What the user has said; `None` in a run that was [resumed](crate::Chat::resume).
        said: Option<&'a Message>,
    },
    /// The model is asked.
    TurnStarted {
        /// Counts from 1 in each run.
        turn: u32,
    },
    /// The provider failed in a way that may pass, and is asked again after a wait. A terminal may
    /// show `retrying in 2 s (2 of 3): 529 overloaded`. Stopping the run ends the wait at once.
    ///
    /// This also tells that a vendor has refused a request because its answer might not fit into the window, and is asked
    /// again at once with a lower `max_tokens`; another [`TurnStarted`](Self::TurnStarted) follows.
    Retrying {
        /// The number of the next attempt. It counts from 1 for each provider in each turn.
        attempt: u32,
        /// The highest number of attempts at this provider in this turn.
        of: u32,
        /// How long the wait is.
        wait: Duration,
        /// What failed.
        cause: &'a str,
    },
    /// A provider is down, and another one is asked.
    FallingBack {
        /// The name of the provider that is down.
        from: &'a str,
        /// The name of the provider that is asked now.
        to: &'a str,
        /// What failed.
        cause: &'a str,
    },
    /// A server has refused a member of the request by its name, and has got the request again without it. The provider
    /// leaves it out from now on, so the event comes once for each member. What the program has asked for is never left
    /// out.
    ParameterDropped {
        /// The name of the member, such as `stream_options`.
        parameter: &'a str,
        /// The refusal, in words.
        cause: &'a str,
    },
    /// The answer of this turn broke off and starts again: discard what was shown of it.
    Discarded {
        /// What failed.
        cause: &'a str,
    },
    /// The next piece of the model's text.
    Text(&'a str),
    /// The source of a piece of the model's text. It comes after that text.
    Citation(&'a Citation),
    /// The model has made a picture.
    Image(&'a Media),
    /// The model has made a sound, such as speech. Its words come as text, too.
    Audio(&'a Media),
    /// The next piece of the model's reasoning.
    Reasoning(&'a str),
    /// The model begins to write a call. [`ToolCallDelta`](Self::ToolCallDelta) follows with each piece of its
    /// arguments, and [`ToolCall`](Self::ToolCall) if the call runs.
    ///
    /// What has been written so far is void if the same call begins once more, which happens if the server replaces
    /// its arguments, and after [`Discarded`](Self::Discarded). A call that has only begun has no effect: its answer
    /// may be cut off, and the call may be denied. A call whose id the answer has already used may be a repetition,
    /// so its writing is not reported.
    ToolCallStart {
        /// The call's id.
        call: &'a str,
        /// The name of the tool, as the model writes it.
        tool: &'a str,
    },
    /// The next piece of the arguments of a call that the model is writing.
    ToolCallDelta {
        /// The call's id.
        call: &'a str,
        /// The next piece of the JSON text, never empty. It may end anywhere in the text.
        json: &'a str,
    },
    /// A call was denied: it does not run, and the model is told why.
    ToolDenied {
        /// The call.
        call: &'a ToolCall,
        /// Why, and what the program can do to allow it.
        reason: &'a str,
    },
    /// A call may begin and waits for a place: as many calls of its tool run in this program as may
    /// run [at once](harness_core::tool::Tool::at_once). [`ToolCall`](Self::ToolCall) follows when it begins. If
    /// the run is stopped before that, the call has not begun.
    ToolQueued(&'a ToolCall),
    /// A call begins. Exactly one [`ToolResult`](Self::ToolResult) or
    /// [`ToolDropped`](Self::ToolDropped) of the same call follows, however the run ends, unless
    /// its tool asks a question and the call [waits](Self::ToolWaits).
    ToolCall(&'a ToolCall),
    /// A call waits until somebody outside of the run decides about it, gives its result, or
    /// answers its tool. The run continues as far as it can and ends as [`Outcome::Waiting`].
    ToolWaits {
        /// The call.
        call: &'a ToolCall,
        /// What it waits for.
        wait: &'a Wait,
    },
    /// A running tool reports its progress.
    ToolProgress {
        /// The call's id.
        call: &'a str,
        /// The report in the tool's words.
        message: &'a str,
    },
    /// A call has its result. The results of calls that run at the same time come in the order in
    /// which the calls end. A call that does not begin, because there are more than
    /// [`calls_per_turn`](harness_core::policy::Guardrails::calls_per_turn) or because an equal call still
    /// runs, has a result without a [`ToolCall`](Self::ToolCall).
    ToolResult {
        /// The call.
        call: &'a ToolCall,
        /// Its result.
        result: &'a ToolResult,
        /// How long it ran.
        elapsed: Duration,
    },
    /// The result of a call that began while the model was still answering is thrown away: the
    /// answer started again, or was cut off before the call was complete. Such a call only reads.
    ToolDropped {
        /// The call.
        call: &'a ToolCall,
    },
    /// A call of an earlier turn or run, which was told to stop and could not be stopped, has now
    /// ended. The model is told with the next message or results.
    ToolEnded {
        /// The name of the tool.
        tool: &'a str,
        /// How it ended. The result has the id of the call.
        result: &'a ToolResult,
    },
    /// At least four fifths of a limit are used. The event comes once in a run for each limit.
    LimitNear {
        /// Which limit.
        limit: LimitKind,
        /// Whose limit.
        scope: LimitScope,
        /// How much is used, in words for a person.
        detail: &'a str,
    },
    /// A limit cannot be fully enforced, because it is not known how much is used. The event comes
    /// once in a run for each limit.
    LimitUnknown {
        /// Which limit.
        limit: LimitKind,
        /// Whose limit.
        scope: LimitScope,
        /// Why, in words for a person.
        detail: &'a str,
    },
    /// The run has received what the user said while it goes on. The model gets it with the next
    /// request.
    Steered {
        /// What was said.
        message: &'a Message,
    },
    /// The model's answer is not what the program wants. If an attempt is left, the model is told
    /// and answers again.
    AnswerRejected {
        /// The check that rejected the answer.
        by: AnswerCheck,
        /// Everything that is wrong with the answer.
        faults: &'a [String],
        /// The message to the model; `None` if no attempt is left.
        message: Option<&'a Message>,
    },
    /// The model has [searched](harness_core::tool::ToolSearch) for tools and gets more of them from its
    /// next turn on.
    ToolsFound {
        /// The call of the search.
        call: &'a ToolCall,
        /// The names of the tools that are new to the model.
        tools: &'a [String],
    },
    /// Old results of tools that only read, and long arguments of old calls that succeeded, are no
    /// longer sent whole, because the window is getting full; or old files are no longer sent,
    /// because a request may not have so many.
    ContextCleared {
        /// How many results, and messages of the user with files, were cleared.
        results: usize,
        /// Of how many calls the arguments were cleared.
        arguments: usize,
        /// How many tokens the next request would have had before the change: an estimate.
        before: u64,
        /// How many tokens the next request has now: an estimate.
        after: u64,
    },
    /// The model is asked to summarize the oldest part of the conversation, because the window is
    /// getting full. [`ContextCompacted`](Self::ContextCompacted) or
    /// [`CompactionFailed`](Self::CompactionFailed) follows, unless the run is stopped meanwhile.
    Compacting,
    /// From now on, a summary is sent in place of the oldest part of the conversation.
    ContextCompacted {
        /// How many messages at the beginning of the transcript the summary replaces, with those that an earlier summary
        /// has replaced.
        messages: usize,
        /// Whether it is [the vendor's own](harness_core::context::Window::vendor_summaries) summary. If
        /// not, the model has written it as text: the program has not asked for the vendor's, the
        /// vendor has none, or the vendor's has failed.
        vendor: bool,
        /// How many tokens the next request would have had before the change: an estimate.
        before: u64,
        /// How many tokens the next request has now: an estimate.
        after: u64,
    },
    /// A summary could not be made or used. What is sent stays the same. If the vendor was asked
    /// for its own summary, the model is asked next for one as text.
    CompactionFailed {
        /// Why it failed.
        cause: &'a str,
    },
    /// The vendor has refused a request that begins with its own summary. The model is asked again,
    /// with the summary as text.
    VendorSummaryRefused {
        /// Why it refused.
        cause: &'a str,
    },
    /// The instructions or the tools have changed since earlier answers, and the model's reasoning is bound to them; or the
    /// vendor has refused earlier reasoning. The conversation goes on.
    PrefixChanged {
        /// What has changed, in words for a person. Empty if that is not known.
        change: &'a str,
        /// Whether the change is sent behind the messages so far, so that earlier reasoning stays valid.
        appended: bool,
        /// Of how many messages the reasoning is not sent any more.
        left_out: u64,
        /// The words of the vendor, if it has refused something.
        refusal: Option<&'a str>,
    },
    /// The model's answer of this turn is complete.
    TurnEnded {
        /// Counts from 1 in each run.
        turn: u32,
        /// Why the model stopped.
        stop: StopReason,
        /// The tokens of this turn.
        usage: &'a Usage,
    },
    /// An event in the run of an agent that a call of this run has started, at any depth. It does
    /// not count for this run: what the agent says and does is not part of this run's answer, and
    /// its usage is only part of [`Reply::spent`](crate::Reply::spent). The events of one agent
    /// come in order.
    OfAgent {
        /// The calls that lead to the agent. The first one is a call of this run.
        path: &'a [AgentCall],
        /// The event of the agent's run.
        event: &'a EventBuf,
    },
    /// The run is over.
    RunEnded {
        /// How it ended.
        outcome: Outcome,
        /// The tokens of the run's own turns. Agents that its tools call are not included: they are
        /// part of [`Reply::spent`](crate::Reply::spent).
        usage: &'a Usage,
    },
    /// An event that a later version of the library has written and that this version does not
    /// know. It occurs only where JSON was read, never in a run.
    Unknown {
        /// The `type` of the event.
        kind: &'a str,
        /// All members of the event.
        json: &'a Map<String, Value>,
    },
}
