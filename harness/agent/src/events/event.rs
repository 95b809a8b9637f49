//! The events of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event_json::EventBuf;
use crate::Outcome;
use harness_core::{
    journal::{AnswerCheck, LimitKind, LimitScope, Wait},
    message::{Citation, Media, Message, ToolCall, ToolResult},
    policy::BudgetUsage,
    provider::{StopReason, Usage},
};

/// A call that runs an agent, as one step on the path to that agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCall {
    /// The name of the tool.
    pub tool: Box<str>,
    /// The id of the call.
    pub call: Box<str>,
}

/// An event in a run. The library reports an event when it happens.
///
/// An event borrows its values, so [`Run::on_event`](crate::Run::on_event) costs no allocation.
/// [`into_owned`](Self::into_owned) makes a copy that can be kept. As JSON, an event is an object with a `type`
/// in snake case: see [`EventBuf`](crate::EventBuf).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run has begun. A run that fails before it begins, for example because the journal does not answer,
    /// does not send this event and leaves the conversation unchanged.
    RunStarted {
        /// The message of the user. `None` in a run that was [resumed](crate::Chat::resume).
        said: Option<&'a Message>,
    },
    /// A turn begins: the next request is sent to the model.
    TurnStarted {
        /// The number of the turn, counted from 1 in each run.
        turn: u32,
    },
    /// The request to the provider has failed with an error that may be temporary, and is sent again after a
    /// wait. A terminal may show `retrying in 2 s (2 of 3): 529 overloaded`. Stopping the run ends the wait at
    /// once.
    ///
    /// The event also occurs if a vendor has refused a request because the answer might not fit into the
    /// window. Then the request is sent again at once with a lower `max_tokens`, and another
    /// [`TurnStarted`](Self::TurnStarted) follows.
    Retrying {
        /// The number of the next attempt, counted from 1 for each provider in each turn.
        attempt: u32,
        /// The highest number of attempts at this provider in this turn.
        of: u32,
        /// How long the wait is.
        wait: Duration,
        /// The error of the last attempt.
        cause: &'a str,
    },
    /// A provider is down, and the request is sent to another provider.
    FallingBack {
        /// The name of the provider that is down.
        from: &'a str,
        /// The name of the provider that gets the request now.
        to: &'a str,
        /// The error of the provider that is down.
        cause: &'a str,
    },
    /// A server has refused the request, and its error names a member of the request. The request was sent again
    /// without the member. The provider leaves the member out of all later requests, so the event occurs once
    /// for each member. Members that the program has set are never left out.
    ParameterDropped {
        /// The name of the member, such as `stream_options`.
        parameter: &'a str,
        /// The text of the server's error.
        cause: &'a str,
    },
    /// The answer of this turn broke off and starts again. Discard the part of the answer that was shown.
    Discarded {
        /// The error that broke off the answer.
        cause: &'a str,
    },
    /// The next piece of the model's text.
    Text(&'a str),
    /// The source of the preceding piece of the model's text.
    Citation(&'a Citation),
    /// An image that the model has made.
    Image(&'a Media),
    /// A sound that the model has made, such as speech. The text of speech also comes as [`Text`](Self::Text).
    Audio(&'a Media),
    /// The next piece of the model's reasoning.
    Reasoning(&'a str),
    /// The model begins to write a call. A [`ToolCallDelta`](Self::ToolCallDelta) follows for each piece of the
    /// arguments, and a [`ToolCall`](Self::ToolCall) if the call runs.
    ///
    /// If the same call begins again, discard its earlier arguments. This happens if the server replaces the
    /// arguments, and after [`Discarded`](Self::Discarded). A call that has only begun has no effect: the
    /// answer may still be cut off, or the call may be denied. If the answer has already used the call's id,
    /// the call may be a repetition, so this event does not occur.
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
        /// The next piece of the JSON text, never empty. A piece may end anywhere in the text.
        json: &'a str,
    },
    /// A call was denied. It does not run, and the model gets the reason.
    ToolDenied {
        /// The call.
        call: &'a ToolCall,
        /// The reason, and what the program can do to allow the call.
        reason: &'a str,
    },
    /// A call may begin, but has to wait: the tool limits how many of its calls run [at
    /// once](harness_core::tool::Tool::at_once), and this program has reached the limit.
    /// [`ToolCall`](Self::ToolCall) follows when the call begins. If the run is stopped first, the call does
    /// not begin.
    ToolQueued(&'a ToolCall),
    /// A call begins. Exactly one [`ToolResult`](Self::ToolResult) or [`ToolDropped`](Self::ToolDropped) of the
    /// same call follows, even if the run is stopped or fails. The only exception is a call whose tool asks a
    /// question, so that the call [waits](Self::ToolWaits).
    ToolCall(&'a ToolCall),
    /// A call waits for something outside of the run: a decision, its result, or an answer to its tool. The run
    /// continues as far as it can and then ends as [`Outcome::Waiting`].
    ToolWaits {
        /// The call.
        call: &'a ToolCall,
        /// What the call waits for.
        wait: &'a Wait,
    },
    /// A running tool reports its progress.
    ToolProgress {
        /// The call's id.
        call: &'a str,
        /// The text of the report.
        message: &'a str,
    },
    /// A call has its result. Calls that run at the same time report their results in the order in which they
    /// end. A call that does not begin has a result without a [`ToolCall`](Self::ToolCall): for example, if the
    /// answer has more calls than [`calls_per_turn`](harness_core::policy::Guardrails::calls_per_turn), if an
    /// equal call still runs, or if the run ends before the call begins. A call that waits until the user says
    /// something new has its result at the beginning of the new run.
    ToolResult {
        /// The call.
        call: &'a ToolCall,
        /// The result of the call.
        result: &'a ToolResult,
        /// How long the call ran.
        elapsed: Duration,
    },
    /// The result of a call is discarded. The call began while the model was still answering, and the answer
    /// started again or was cut off before the call was complete. The call only reads, so nothing has to be
    /// undone.
    ToolDropped {
        /// The call.
        call: &'a ToolCall,
    },
    /// A call of an earlier turn or run has now ended. The library had asked the call to stop, but could not
    /// stop it. The model gets a notice with the next message or results.
    ToolEnded {
        /// The name of the tool.
        tool: &'a str,
        /// The outcome of the call. The result has the id of the call.
        result: &'a ToolResult,
    },
    /// At least four fifths of a limit are used. The event occurs once in a run for each limit.
    LimitNear {
        /// The limit that is nearly reached.
        limit: LimitKind,
        /// What the limit applies to, such as the run or the agent.
        scope: LimitScope,
        /// How much is used, as text for a person.
        detail: &'a str,
    },
    /// A limit cannot be fully enforced, because it is not known how much is used. The event occurs once in a
    /// run for each limit.
    LimitUnknown {
        /// The limit that cannot be enforced.
        limit: LimitKind,
        /// What the limit applies to, such as the run or the agent.
        scope: LimitScope,
        /// The reason, as text for a person.
        detail: &'a str,
    },
    /// The run has taken in a message that the user has sent while the run goes on. The model gets the message
    /// with the next request.
    Steered {
        /// The message of the user.
        message: &'a Message,
    },
    /// The model's answer is not what the program wants. If an attempt is left, the model gets the faults and
    /// answers again.
    AnswerRejected {
        /// The check that rejected the answer.
        by: AnswerCheck,
        /// Everything that is wrong with the answer.
        faults: &'a [String],
        /// The message with the faults to the model. `None` if no attempt is left.
        message: Option<&'a Message>,
    },
    /// The model has [searched](harness_core::tool::ToolSearch) for tools. From its next turn on, the model
    /// gets the found tools.
    ToolsFound {
        /// The call that has searched.
        call: &'a ToolCall,
        /// The names of the found tools that the model did not have before.
        tools: &'a [String],
    },
    /// From now on, requests omit parts of the conversation. If the window is getting full, these parts are old
    /// results of read-only tools, and long arguments of old calls that succeeded. If a request has too many
    /// files, these parts are old files.
    ContextCleared {
        /// How many results were cleared, plus how many messages of the user have lost files.
        results: usize,
        /// How many calls had their arguments cleared.
        arguments: usize,
        /// The estimated number of tokens that the next request would have had before the change.
        before: u64,
        /// The estimated number of tokens of the next request after the change.
        after: u64,
    },
    /// A summary of the oldest part of the conversation is requested from the model, because the window is
    /// getting full. [`ContextCompacted`](Self::ContextCompacted) or
    /// [`CompactionFailed`](Self::CompactionFailed) follows, unless the run is stopped meanwhile.
    Compacting,
    /// From now on, a summary is sent in place of the oldest part of the conversation.
    ContextCompacted {
        /// How many messages at the beginning of the transcript the summary replaces, including the messages
        /// that an earlier summary has replaced.
        messages: usize,
        /// Whether this is [the vendor's own](harness_core::context::Window::vendor_summaries) summary. If not,
        /// the model has written the summary as text. The reason is that the program has switched off the
        /// vendor's summaries, that the vendor has no such summaries, or that the request for the vendor's
        /// summary has failed.
        vendor: bool,
        /// The estimated number of tokens that the next request would have had before the change.
        before: u64,
        /// The estimated number of tokens of the next request after the change.
        after: u64,
    },
    /// A summary could not be made or used. The context does not change. If the vendor's own summary has
    /// failed, a summary as text is requested next.
    CompactionFailed {
        /// Why the summary failed.
        cause: &'a str,
    },
    /// The vendor has refused a request that begins with the vendor's own summary. The request is sent again
    /// with the summary as text.
    VendorSummaryRefused {
        /// The text of the vendor's error.
        cause: &'a str,
    },
    /// The instructions or the tools have changed since earlier answers, and the model rejects reasoning from
    /// before such a change. Or another model has answered in between, or the vendor has refused earlier reasoning.
    /// The conversation goes on. If reasoning is left out, this event comes with the first answer without it.
    PrefixChanged {
        /// What has changed, as text for a person. Empty if the change is not known.
        change: &'a str,
        /// Whether the change is sent after the messages so far, so that earlier reasoning stays valid.
        appended: bool,
        /// The number of messages whose reasoning is not sent any more.
        left_out: u64,
        /// The text of the server's error, if the server has refused a request with earlier reasoning or with a
        /// change after a message, and has answered the request without it.
        refusal: Option<&'a str>,
    },
    /// The model's answer of this turn is complete.
    TurnEnded {
        /// The number of the turn, counted from 1 in each run.
        turn: u32,
        /// Why the model stopped.
        stop: StopReason,
        /// The tokens of this turn.
        usage: &'a Usage,
    },
    /// An event in the run of an agent that a call of this run has started, at any depth. This run's answer
    /// does not contain the text and the calls of the agent. Only [`Reply::spent`](crate::Reply::spent)
    /// includes the usage of the agent. The events of one agent come in order.
    OfAgent {
        /// The calls that lead to the agent. The first call belongs to this run.
        path: &'a [AgentCall],
        /// The event of the agent's run.
        event: &'a EventBuf,
    },
    /// The run has ended.
    RunEnded {
        /// How the run ended.
        outcome: Outcome,
        /// The tokens of the run's own turns. `spent` includes the tokens of agents that the tools run.
        usage: &'a Usage,
        /// What the run has spent, including the agents that its calls have started: the value of
        /// [`Reply::spent`](crate::Reply::spent). If the run is read back from a journal, its cost is computed again
        /// with the agent's prices.
        spent: &'a BudgetUsage,
        /// Why the run has no answer, and what can be done, for a person who uses the program, for example in a
        /// browser. The text of a failure is [`Error::public_text`](harness_core::error::Error::public_text).
        /// `None` if the model has answered.
        reason: Option<&'a str>,
    },
    /// An event of a later version of the library, unknown to this version. Such an event only comes from JSON,
    /// never from a run.
    Unknown {
        /// The `type` of the event.
        kind: &'a str,
        /// All members of the event.
        json: &'a Map<String, Value>,
    },
}
