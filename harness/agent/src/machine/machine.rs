//! The loop as a pure machine: it takes facts and returns the next action. It has no clock, no random numbers,
//! no socket and no log, so every behaviour of the loop can be tested with a table.

use std::{
    collections::HashSet,
    slice,
    sync::{Arc, LazyLock},
};

use super::{
    action::Action,
    call_states::{
        AfterCalls, ApprovedCall, CallState, CallStatus, CallerName, RunPhase, ToolCallStates,
        cannot,
    },
    outcome::Outcome,
    prefix::PrefixState,
    provenance::{AnswerProvenances, Provenance},
    window::ContextState,
};
use crate::{
    model_notices::{
        GO_ON, lost_notice, not_accepted, not_started_notice, stopped_notice, unanswered_notice,
        unrun_reason, unsupported_notice,
    },
    output::requirement::OutputRequirement,
};
use harness_core::{
    error::Error,
    journal::{AnswerCheck, Awaited, CallBinding, Fact, Prefix, Wait, WantedAnswer},
    message::{CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript},
    provider::{OutputSchema, PrefixAddition, Usage, breaks_off},
    tool::{CallIdentity, Scope, ToolRegistry, ToolSchema},
};

/// The state of a conversation, made by applying its facts one after the other.
///
/// ```
/// use harness::{Message, agent::{Action, Machine}, journal::Fact};
///
/// let mut machine = Machine::new();
/// assert_eq!(machine.next(), Action::AwaitUser);
/// machine.apply(&Fact::UserSaid { message: Message::user("Hello"), limits: None })?;
/// assert_eq!(machine.next(), Action::CallProvider);
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) transcript: Transcript,
    pub(super) phase: RunPhase,
    pub(super) turns: u32,
    pub(super) usage: Usage,
    pub(super) begun_at: usize,
    pub(super) untouched: bool,
    /// The origin of the last answer.
    pub(super) answered_by: Option<Arc<Provenance>>,
    pub(super) provenances: AnswerProvenances,
    /// The ids of all calls so far.
    pub(super) call_ids: Arc<HashSet<String>>,
    /// Reports about the ends of calls that were stopped but went on. The model has not received them yet.
    pub(super) news: Vec<String>,
    /// The wanted form of the run's answer.
    pub(super) wanted: Option<Box<OutputRequirement>>,
    /// The differences between the transcript and the messages that are sent.
    pub(super) window: ContextState,
    /// The instructions and tools of requests to a model that rejects earlier reasoning after a change of
    /// either.
    pub(super) prefix: PrefixState,
    /// The id of the last call that was denied since the last answer of the model.
    pub(super) denied: Option<String>,
    /// The call of another conversation that has started the run.
    pub(super) called_by: Option<Box<CallerName>>,
    /// The provider and the model of a summary request whose outcome no fact records yet.
    pub(super) compacting: Option<Box<(String, String)>>,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A conversation without messages. The machine knows no limits: when a guard stops a run, the stop is
    /// recorded as a fact.
    pub fn new() -> Self {
        // All conversations share the empty values until they change them.
        static EMPTY: LazyLock<Machine> = LazyLock::new(Machine::empty);
        EMPTY.clone()
    }

    fn empty() -> Self {
        Self {
            transcript: Transcript::default(),
            phase: RunPhase::Ended(None),
            turns: 0,
            usage: Usage::default(),
            begun_at: 0,
            untouched: true,
            answered_by: None,
            provenances: AnswerProvenances::default(),
            call_ids: Arc::default(),
            news: Vec::new(),
            wanted: None,
            window: ContextState::default(),
            prefix: PrefixState::default(),
            denied: None,
            called_by: None,
            compacting: None,
        }
    }

    /// All messages so far. Between runs the transcript can always be sent to a model.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The id of the conversation: the id of its first message.
    pub(crate) fn id(&self) -> &str {
        self.transcript.messages().first().map_or("", Message::id)
    }

    /// How many answers the model has completed in this run.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The tokens of this run.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The transcript index of the message with which this run began.
    pub fn begun_at(&self) -> usize {
        self.begun_at
    }

    /// The provider and the model that gave the last answer.
    pub fn answered_by(&self) -> Option<(&str, &str)> {
        self.answered_by.as_ref().map(|it| (it.provider.as_str(), it.model.as_str()))
    }

    /// The schema of the wanted answer for the provider. The name of the answer tool differs from the names of
    /// `tools`.
    pub(crate) fn wanted_schema(&self, tools: &ToolRegistry) -> Option<OutputSchema> {
        let wanted = self.wanted.as_ref()?;
        let (_, known) = self.prefix_now();
        let schema = wanted.answer.schema.as_ref();
        let is_other = |tool: &&ToolSchema| Some(&tool.input_schema) != schema;
        wanted.answer_schema(|name| {
            let known = known.iter().copied().find(|known| known.name == name);
            tools.get(name).is_some() || known.as_ref().is_some_and(is_other)
        })
    }

    /// The wanted form of the run's answer. `None` if any text is accepted.
    pub fn wanted(&self) -> Option<&WantedAnswer> {
        self.wanted.as_ref().map(|wanted| &*wanted.answer)
    }

    /// How often the model may still answer again if this check rejects its answer.
    pub fn tries_left(&self, by: AnswerCheck) -> u32 {
        self.wanted.as_ref().map_or(0, |wanted| wanted.tries_left(by))
    }

    /// The faults of the run's last rejected answer.
    pub fn faults(&self) -> &[String] {
        self.wanted.as_ref().map_or(&[], |wanted| &wanted.faults)
    }

    pub(super) fn is_unchecked(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.unchecked)
    }

    /// The action that has to be done next.
    pub fn next(&self) -> Action {
        match &self.phase {
            RunPhase::Ended(None) => Action::AwaitUser,
            RunPhase::Ended(Some(outcome)) => Action::Finish(*outcome),
            RunPhase::Asking => Action::CallProvider,
            RunPhase::Checking => Action::CheckAnswer,
            RunPhase::Calling(calling) => match calling.then {
                AfterCalls::End(_) => Action::Settle,
                AfterCalls::Ask => calling.next(),
            },
        }
    }

    /// The call with this id. `None` unless the call waits for a decision.
    pub(crate) fn undecided(&self, id: &str) -> Option<&ToolCall> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        let call = calling.get(id)?;
        match call.status {
            CallStatus::Asked => Some(&call.call),
            _ => None,
        }
    }

    /// The id of the last call that was denied since the last answer of the model. The permissions may end the
    /// run after a denial.
    pub(crate) fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }

    /// The call of another conversation that has started the run. `None` if the run is not inside a tool call.
    pub(crate) fn parent_call(&self) -> Option<&CallerName> {
        self.called_by.as_deref()
    }

    /// Whether the call that has started the run may belong to an answer to this message.
    pub(crate) fn is_called_by(&self, message: &str) -> bool {
        self.called_by.as_ref().is_none_or(|caller| caller.is_asked_by(message))
    }

    /// The binding that a person has approved for this call, if the call now needs a new decision.
    pub(crate) fn allowed_before(&self, id: &str) -> Option<&CallBinding> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        calling.get(id)?.allowed_before.as_deref()
    }

    /// Whether the run can take in a message of the user now.
    pub(crate) fn can_take_message(&self) -> bool {
        match self.phase {
            // The vendor continues its own answer only if that answer is the last message.
            RunPhase::Asking => !self.transcript.messages().last().is_some_and(Message::is_paused),
            RunPhase::Ended(outcome) => outcome == Some(Outcome::Answered),
            RunPhase::Checking => true,
            RunPhase::Calling(_) => false,
        }
    }

    /// Whether the next step is an answer of the model.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.phase, RunPhase::Asking)
    }

    /// Whether some calls have no result.
    pub(crate) fn is_calling(&self) -> bool {
        matches!(self.phase, RunPhase::Calling(_))
    }

    /// Whether no fact was applied yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// Whether a run is going on: the model has to answer, an answer has to be checked, or calls have no
    /// result.
    pub fn is_going(&self) -> bool {
        !matches!(self.phase, RunPhase::Ended(_))
    }

    /// The approval of a call that has no result yet.
    pub(crate) fn approved(&self, id: &str) -> Option<&ApprovedCall> {
        match &self.call_state(id)?.status {
            CallStatus::Allowed(granted)
            | CallStatus::Started(granted)
            | CallStatus::Doubtful(granted)
            | CallStatus::Waiting(_, granted) => Some(granted),
            CallStatus::Asked | CallStatus::Finished(_) => None,
        }
    }

    /// The state of this call, if it belongs to the last answer and some call of this answer has no result yet.
    pub(crate) fn call_state(&self, id: &str) -> Option<&CallState> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        calling.get(id)
    }

    pub(crate) fn calls(&self) -> slice::Iter<'_, CallState> {
        match &self.phase {
            RunPhase::Calling(calling) => calling.calls.iter(),
            RunPhase::Asking | RunPhase::Checking | RunPhase::Ended(_) => [].iter(),
        }
    }

    /// How many calls of the last answer have a decision, and how many calls the answer has.
    pub(crate) fn decided(&self) -> (usize, usize) {
        let RunPhase::Calling(calling) = &self.phase else { return (0, 0) };
        (calling.calls.len().saturating_sub(calling.undecided), calling.calls.len())
    }

    /// The ids of all calls so far. A new call must not have one of these ids.
    pub(crate) fn call_ids(&self) -> &Arc<HashSet<String>> {
        &self.call_ids
    }

    /// The origin of the message with this id. `None` for a message that is not a complete answer of a provider
    /// in this conversation: messages of the user, results, messages of a transcript with which the
    /// conversation began, and the beginning of an answer that broke off.
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.provenances.get(message)
    }

    /// The origins of all answers of the conversation.
    pub(crate) fn provenances(&self) -> &AnswerProvenances {
        &self.provenances
    }

    /// The calls that wait for decisions or answers from outside of the run, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (&ToolCall, &Wait)> {
        self.calls().filter_map(|CallState { call, status, .. }| match status {
            CallStatus::Waiting(wait, _) => Some((call, wait)),
            _ => None,
        })
    }

    /// The call with this id, if it waits.
    pub(crate) fn waiting_call(&self, id: &str) -> Option<&ToolCall> {
        let state = self.call_state(id)?;
        matches!(state.status, CallStatus::Waiting(..)).then_some(&state.call)
    }

    /// The ids of the calls that an earlier *always* has allowed and that have not run.
    pub(crate) fn calls_of_grant(&self, call: &str, scope: &Scope) -> Vec<String> {
        let by = |granted: &ApprovedCall| {
            let by = granted.by_grant.as_ref();
            !granted.has_run() && by.is_some_and(|(asked, of)| asked == call && of == scope)
        };
        let those = self.calls().filter(|CallState { status, .. }| match status {
            CallStatus::Allowed(granted) => by(granted),
            _ => false,
        });
        those.map(|call| call.call.id().to_owned()).collect()
    }

    /// The calls whose outcome is not known, in order. Such a call had started in an earlier process, and must
    /// not run again.
    pub fn in_doubt(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|CallState { call, status, .. }| match status {
            CallStatus::Doubtful(_) => Some(call),
            _ => None,
        })
    }

    /// The calls that may have run in an earlier process and may run again by the recorded facts.
    pub(crate) fn to_repeat(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|CallState { call, status, .. }| match status {
            CallStatus::Started(_) => Some(call),
            CallStatus::Allowed(granted) if granted.again => Some(call),
            _ => None,
        })
    }

    /// All calls of the last answer, if some of them have no result.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().map(|call| &call.call)
    }

    /// The calls that have started and have no result.
    pub(crate) fn started(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|CallState { call, status, .. }| match status {
            CallStatus::Started(_) => Some(call),
            _ => None,
        })
    }

    /// Whether this call belongs to the conversation, and no fact records yet that the stopped call has ended.
    pub(crate) fn needs_end_of(&self, ended: &CallIdentity) -> bool {
        let messages = self.transcript.messages();
        let is_it =
            |call: &ToolCall| *call.id() == *ended.call && call.fingerprint() == ended.fingerprint;
        messages.iter().flat_map(Message::calls).any(is_it)
            && !self.window.ended.contains_key(&*ended.call)
    }

    /// The fact with which a stopped run continues.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if there is nothing to
    /// continue: the conversation has no message, the model has completed its answer, or calls wait for their
    /// results.
    pub fn resumption(&self) -> Result<Fact, Error> {
        let Some(last) = self.transcript.messages().last() else {
            return Err(cannot("there is nothing to resume: nothing was said yet; `send` begins"));
        };
        if self.is_unchecked() {
            return Ok(resumed(None));
        }
        let is_open = match self.phase {
            RunPhase::Calling(_) => {
                return Err(cannot("a run cannot be resumed while calls wait for results"));
            }
            RunPhase::Ended(Some(Outcome::Answered)) => false,
            RunPhase::Ended(Some(_)) | RunPhase::Asking | RunPhase::Checking => true,
            // The transcript comes from elsewhere, so only its last message can show whether the answer is
            // complete.
            RunPhase::Ended(None) => last.is_paused() || breaks_off(last),
        };
        match last.role() {
            Role::User | Role::Tool => Ok(resumed(None)),
            Role::Assistant if !is_open => Err(cannot(
                "there is nothing to resume: the model has answered; `send` says something new",
            )),
            // The vendor continues its own answer only if that answer is the last message, and unchanged.
            Role::Assistant if last.is_paused() => Ok(resumed(None)),
            Role::Assistant => {
                let words = match self.phase {
                    RunPhase::Ended(Some(Outcome::Unsupported(item))) => unsupported_notice(item),
                    RunPhase::Ended(Some(Outcome::Unfit)) => not_accepted(self.faults()),
                    _ => GO_ON.to_owned(),
                };
                Ok(resumed(Some(Message::user(words))))
            }
        }
    }

    /// The facts that give a result to every call without a result. Each result says that the call did not
    /// start, that it only read, or that it may have partly run. After these facts, the transcript can be sent
    /// to a model. Empty if every call has a result.
    pub fn settlement(&self) -> impl Iterator<Item = Fact> + '_ {
        let calling = match &self.phase {
            RunPhase::Calling(calling) => Some(&**calling),
            RunPhase::Asking | RunPhase::Checking | RunPhase::Ended(_) => None,
        };
        calling.into_iter().flat_map(|ToolCallStates { calls, then, .. }| {
            calls.iter().filter_map(|CallState { call, status, .. }| {
                let (outcome, text) = match status {
                    CallStatus::Finished(_) => return None,
                    // The call has run in another process, and its outcome is not known.
                    CallStatus::Allowed(granted) if granted.has_run() => {
                        lost_notice(granted.effects)
                    }
                    // The call has asked a question, and would have continued with the answer.
                    CallStatus::Allowed(granted) if granted.begun => {
                        stopped_notice(granted.effects)
                    }
                    CallStatus::Asked
                    | CallStatus::Allowed(_)
                    | CallStatus::Waiting(Wait { awaited: Awaited::Approval { .. }, .. }, _) => {
                        (CallOutcome::NotStarted, not_started_notice(&unrun_reason(*then)))
                    }
                    CallStatus::Waiting(Wait { awaited: Awaited::Agent { .. }, .. }, granted) => {
                        stopped_notice(granted.effects)
                    }
                    CallStatus::Waiting(Wait { awaited, .. }, _) => unanswered_notice(awaited),
                    CallStatus::Started(granted) => stopped_notice(granted.effects),
                    CallStatus::Doubtful(granted) => lost_notice(granted.effects),
                };
                let result = ToolResult::new(call.id(), outcome, [ToolContent::Text(text)]);
                Some(Fact::CallFinished { result, spent: None })
            })
        })
    }

    /// The provider and the model of a summary request whose outcome no fact records. The process ended before
    /// the answer was complete.
    pub(crate) fn compacting(&self) -> Option<(&str, &str)> {
        self.compacting.as_deref().map(|(provider, model)| (provider.as_str(), model.as_str()))
    }

    /// The prefix of requests, which comes before the messages. `None` unless the model's reasoning depends on
    /// the prefix.
    pub(crate) fn prefix(&self) -> Option<&Arc<Prefix>> {
        self.prefix.first.as_ref()
    }

    /// The additions to the prefix since it was set.
    pub(crate) fn prefix_additions(&self) -> &Arc<Vec<PrefixAddition>> {
        &self.prefix.added
    }

    /// The current instructions and tools, for a model whose reasoning depends on them.
    pub(crate) fn prefix_now(&self) -> (Option<&str>, Vec<&ToolSchema>) {
        (self.prefix.system(), self.prefix.tools())
    }

    /// How often the prefix has changed.
    pub(crate) fn prefix_version(&self) -> u64 {
        self.prefix.version
    }

    /// Whether this provider gets no additions, because its server has refused some.
    pub(crate) fn refuses_additions(&self, provider: &str) -> bool {
        self.prefix.refuses_additions(provider)
    }

    /// Whether the vendor has refused reasoning of this conversation.
    pub(crate) fn is_reasoning_refused(&self) -> bool {
        self.prefix.refused
    }
}

fn resumed(message: Option<Message>) -> Fact {
    Fact::Resumed { message, limits: None }
}
