//! The loop as a pure machine: it takes facts and returns the next action. It has no clock, no
//! random numbers, no socket and no log, so every behaviour of the loop can be tested with a table.

use std::{collections::HashSet, mem, sync::Arc};

use super::{
    call_states::{AfterCalls, ApprovedCall, CallState, CallStatus, CallerName, ToolCallStates},
    provenance::{AnswerProvenances, Provenance},
    window::ContextState,
};
use crate::{
    Outcome,
    model_notices::{denial_notice, late_end},
    output::requirement::OutputRequirement,
};
use harness_core::{
    context::{LONG, kept_as},
    error::{Error, ErrorKind},
    journal::{
        AnswerCheck, Awaited, CallBinding, Decider, Decision, Fact, InterruptCause, Wait,
        WantedAnswer,
    },
    message::{CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript},
    provider::{OutputSchema, StopReason, Usage},
    tool::{Answered, ToolRegistry},
};

/// The next thing to do. A [`Machine`] only names it; [`Steps::act`](crate::Steps::act) does it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing, until the user says something.
    AwaitUser,
    /// Ask the model to go on.
    CallProvider,
    /// Decide which of these calls may run.
    Decide(Vec<ToolCall>),
    /// Run these calls; those of one batch may run at the same time.
    RunCalls(Vec<ToolCall>),
    /// Nothing, until the calls that run have their results. For [`Steps`](crate::Steps), calls have
    /// started; this action runs them to their ends, or records that they had started elsewhere.
    AwaitResults,
    /// Find out what became of these calls, which had started in a process that did not see their
    /// end, and record a result for each of them.
    FindOut(Vec<ToolCall>),
    /// Nothing in this run: calls wait until somebody outside of it decides or answers.
    AwaitAnswers,
    /// Check whether the model's answer is what the program [wanted](harness_core::journal::WantedAnswer).
    CheckAnswer,
    /// Record the facts of [`Machine::settlement`]: the results of calls that will not run or were stopped.
    Settle,
    /// The run is over.
    Finish(Outcome),
}

/// A conversation, made by applying its facts one after the other.
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
    pub(super) answered_by: Option<(String, String)>,
    pub(super) provenances: AnswerProvenances,
    /// The ids of all calls so far.
    pub(super) call_ids: Arc<HashSet<String>>,
    /// Texts about the ends of calls that were stopped and went on. The model has not received them yet.
    pub(super) news: Vec<String>,
    /// The wanted form of the run's answer.
    pub(super) wanted: Option<OutputRequirement>,
    /// What is sent of the transcript.
    pub(super) window: ContextState,
    /// The last call that was denied since the model has answered.
    pub(super) denied: Option<String>,
    /// The call of another conversation that has started the run.
    pub(super) called_by: Option<CallerName>,
    /// The provider and the model that were last asked for a summary, until the next fact.
    pub(super) compacting: Option<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) enum RunPhase {
    /// Nothing was said, or the run is over.
    Ended(Option<Outcome>),
    /// The model has to answer.
    Asking,
    /// Calls wait for their results.
    Calling(ToolCallStates),
    /// The model has answered, and the answer is not checked yet.
    Checking,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A conversation without messages. The machine knows no limits: a guard that stops a run records that as a fact.
    pub fn new() -> Self {
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
            denied: None,
            called_by: None,
            compacting: None,
        }
    }

    /// What was said. Between runs it is valid to send.
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

    /// The index of the message of the transcript with which this run began.
    pub fn begun_at(&self) -> usize {
        self.begun_at
    }

    /// The provider and the model that gave the last answer.
    pub fn answered_by(&self) -> Option<(&str, &str)> {
        self.answered_by.as_ref().map(|(provider, model)| (provider.as_str(), model.as_str()))
    }

    /// The wanted form of the answer, as the provider gets it together with these tools.
    pub(crate) fn wanted_schema(&self, tools: &ToolRegistry) -> Option<OutputSchema> {
        self.wanted.as_ref()?.answer_schema(|name| tools.get(name).is_some())
    }

    /// The wanted form of the run's answer, if it has to be more than text.
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

    /// Applies a fact.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) and changes nothing, if the fact cannot come next.
    pub fn apply(&mut self, fact: &Fact) -> Result<(), Error> {
        match fact {
            Fact::Given { transcript } => {
                if !self.untouched {
                    return Err(cannot("a given transcript can only be the first fact"));
                }
                transcript.sendable()?;
                self.transcript = transcript.clone();
                for message in transcript.messages() {
                    self.add_call_ids(message);
                }
                self.begun_at = transcript.messages().len();
                self.window.set_initial_messages(transcript.messages());
            }
            Fact::UserSaid { message, limits: _ } => {
                if let RunPhase::Calling(_) = self.phase {
                    return Err(cannot("the user cannot speak while calls wait for results"));
                }
                if message.role() != Role::User {
                    return Err(cannot(
                        "only the user can begin a run; send a message of `Role::User`",
                    ));
                }
                self.check_is_new(message)?;
                let begun_at = self.transcript.messages().len();
                self.tell(message)?;
                self.reset_counts(begun_at);
                (self.wanted, self.denied, self.called_by) = (None, None, None);
                self.phase = RunPhase::Asking;
            }
            Fact::AnswerWanted { answer } => {
                let has_begun = self.begun_at.saturating_add(1) == self.transcript.messages().len();
                if !has_begun || self.wanted.is_some() || !matches!(self.phase, RunPhase::Asking) {
                    return Err(cannot("the wanted answer can only be set when a run begins"));
                }
                self.wanted = Some(OutputRequirement::new(answer, self.begun_at));
            }
            Fact::AnswerAccepted {} => {
                self.checking()?.unchecked = false;
                self.phase = RunPhase::Ended(Some(Outcome::Answered));
            }
            Fact::AnswerRejected { message: Some(message), faults, by } => {
                self.checking()?;
                if message.role() != Role::User || self.tries_left(*by) == 0 {
                    return Err(cannot(
                        "the model answers again only after a message of the user, and only if an attempt is left",
                    ));
                }
                self.check_is_new(message)?;
                self.add_notice(message)?;
                self.checking()?.reject(*by, faults);
                self.set_next_phase(AfterCalls::Ask);
            }
            Fact::AnswerRejected { message: None, faults, by: _ } => {
                let wanted = self.checking()?;
                wanted.faults.clone_from(faults);
                wanted.unchecked = false;
                self.phase = RunPhase::Ended(Some(Outcome::Unfit));
            }
            // The run continues with its open calls and counts from zero.
            Fact::Resumed { message: None, limits: Some(_) } if self.is_calling() => {
                self.reset_counts(self.transcript.messages().len());
            }
            Fact::Steered { message } => {
                if message.role() != Role::User || !self.can_take_message() {
                    return Err(cannot(
                        "only the user can steer a run, and only before the model is asked or when it has \
                         answered: not while calls wait for results or an answer is paused",
                    ));
                }
                self.check_is_new(message)?;
                self.tell(message)?;
                self.set_next_phase(AfterCalls::Ask);
            }
            Fact::CalledBy { conversation, call, message } => {
                if !matches!(self.phase, RunPhase::Asking) {
                    return Err(cannot("a run is started by a call only when it begins"));
                }
                let (conversation, call) = (conversation.clone(), call.clone());
                self.called_by = Some(CallerName { conversation, call, message: message.clone() });
            }
            Fact::Resumed { message, limits } => {
                let due = self.resumption()?;
                let was_unfit = matches!(self.phase, RunPhase::Ended(Some(Outcome::Unfit)));
                let unchecked = usize::from(self.is_unchecked());
                let begun_at = self.transcript.messages().len().saturating_sub(unchecked);
                let Fact::Resumed { message: due, .. } = due else { return Ok(()) };
                // A summary is asked for anew.
                self.window.reset_failures();
                match (message, due) {
                    (None, None) => {}
                    (Some(message), Some(_)) if message.role() == Role::User => {
                        self.add_notice(message)?;
                    }
                    _ => {
                        return Err(cannot(
                            "a run is resumed with a message of the user if the conversation ends with an \
                             answer of the model that broke off, and only then",
                        ));
                    }
                }
                if limits.is_some() {
                    self.reset_counts(begun_at);
                }
                if let Some(wanted) = self.wanted.as_mut().filter(|_| was_unfit || limits.is_some())
                {
                    wanted.rejected = [0, 0];
                }
                match self.is_unchecked() {
                    true => self.phase = RunPhase::Checking,
                    false => self.set_next_phase(AfterCalls::Ask),
                }
            }
            Fact::Reopened { doubtful } => match &mut self.phase {
                RunPhase::Calling(calling) => calling.reopen(doubtful),
                RunPhase::Asking | RunPhase::Checking => {}
                RunPhase::Ended(_) => {
                    return Err(cannot(
                        "no run was going on when the conversation was opened again",
                    ));
                }
            },
            Fact::Forked {} => self.fork()?,
            Fact::GrantRevoked { call, scope } => {
                if let RunPhase::Calling(calling) = &mut self.phase {
                    calling.revoke(call, scope);
                }
            }
            Fact::ModelReplied { message, stop, usage, provider, model, asked_model } => {
                self.asking("the model cannot reply")?;
                self.denied = None;
                let asked = asked_model.as_deref().unwrap_or(model);
                let sent = self.sent_view_for(provider, asked).messages().len();
                let ended = match stop {
                    StopReason::Complete | StopReason::ToolCalls => {
                        AfterCalls::End(Outcome::Answered)
                    }
                    StopReason::Truncated => AfterCalls::End(Outcome::Truncated),
                    StopReason::Refused => AfterCalls::End(Outcome::Refused),
                    StopReason::Unsupported(item) => AfterCalls::End(Outcome::Unsupported(*item)),
                    StopReason::Paused => AfterCalls::Ask,
                };
                let called = if stop.lets_calls_run() { AfterCalls::Ask } else { ended };
                // The message is marked with how it ended, since that decides what of it may be sent.
                let marked = match stop {
                    StopReason::Paused => message.as_ref().map(Message::paused),
                    StopReason::Refused => message.as_ref().map(Message::refused),
                    StopReason::Complete
                    | StopReason::ToolCalls
                    | StopReason::Truncated
                    | StopReason::Unsupported(_) => None,
                };
                self.add_model_message(marked.as_ref().or(message.as_ref()), called, ended)?;
                if let Some(message) = message {
                    let (provider, model) = (provider.clone(), model.clone());
                    let (asked_model, stop, usage) = (asked_model.clone(), *stop, *usage);
                    let from = Provenance { provider, model, asked_model, stop, usage };
                    self.provenances.insert(message, from);
                }
                self.turns = self.turns.saturating_add(1);
                self.usage.add(usage);
                let by = Some((provider.clone(), model.clone()));
                self.window.record_sent(sent, usage, (provider, model), self.answered_by == by);
                self.answered_by = by;
            }
            Fact::Interrupted { message, usage, cause, asked: _ } => {
                let outcome = match cause {
                    InterruptCause::Program => Outcome::Cancelled,
                    InterruptCause::Limit { limit, .. } => Outcome::Limit(*limit),
                    InterruptCause::Denial { .. } => Outcome::Denied,
                    InterruptCause::Failure { .. } => Outcome::Failed,
                };
                let end = AfterCalls::End(outcome);
                match &mut self.phase {
                    RunPhase::Calling(calling) if message.is_none() => {
                        calling.then = end;
                    }
                    RunPhase::Asking => {
                        self.add_model_message(message.as_ref(), end, end)?;
                    }
                    RunPhase::Checking if message.is_none() => {
                        self.phase = RunPhase::Ended(Some(outcome));
                    }
                    RunPhase::Calling(_) | RunPhase::Checking => {
                        return Err(cannot("a partial answer cannot come while calls wait"));
                    }
                    RunPhase::Ended(_) => return Err(cannot("there is no run to interrupt")),
                }
                self.usage.add(usage);
                self.denied = None;
            }
            Fact::CallDecided { call, decision } => {
                match &self.call(call)?.status {
                    CallStatus::Asked => {}
                    CallStatus::Waiting(Wait { awaited: Awaited::Approval { .. }, .. }, _) => {}
                    _ => return Err(cannot(format!("`{call}` was decided before"))),
                }
                if let Decision::Allow { side_effects, .. } = decision {
                    self.set_read_only(call, side_effects.is_read_only());
                }
                let status = match decision {
                    Decision::Allow { side_effects, repeat, reviewed, by, binding } => {
                        CallStatus::Allowed(ApprovedCall {
                            effects: *side_effects,
                            repeat: *repeat,
                            reviewed: reviewed.clone(),
                            binding: binding.clone(),
                            runs_nothing: *by == Decider::Call,
                            by_grant: match by {
                                Decider::Always { call, scope } => {
                                    Some((call.clone(), scope.clone()))
                                }
                                _ => None,
                            },
                            ..ApprovedCall::default()
                        })
                    }
                    Decision::Deny { reason, .. } => CallStatus::Finished(ToolResult::new(
                        call,
                        CallOutcome::Denied,
                        [ToolContent::Text(denial_notice(reason))],
                    )),
                };
                if let Decision::Deny { .. } = decision {
                    self.denied = Some(call.clone());
                }
                self.set(call, status);
                self.close()?;
            }
            Fact::CallUndecided { call } => {
                let CallStatus::Allowed(ApprovedCall { again: false, .. }) =
                    self.call(call)?.status
                else {
                    return Err(cannot(format!("`{call}` cannot be decided again now")));
                };
                self.set(call, CallStatus::Asked);
            }
            Fact::CallWaits { call, wait } => {
                let granted = match (&self.call(call)?.status, &wait.awaited) {
                    (CallStatus::Asked, Awaited::Approval { .. }) => ApprovedCall::default(),
                    (CallStatus::Allowed(granted), Awaited::Result)
                    | (
                        CallStatus::Started(granted),
                        Awaited::Answer { .. } | Awaited::Agent { .. },
                    ) => granted.clone(),
                    _ => return Err(cannot(format!("`{call}` cannot wait for that now"))),
                };
                self.set(call, CallStatus::Waiting(wait.clone(), granted));
            }
            Fact::CallAnswered { call, answer, .. } => {
                let (answered, granted) = match &self.call(call)?.status {
                    CallStatus::Waiting(
                        Wait { awaited: Awaited::Answer { token, .. }, .. },
                        granted,
                    ) => {
                        let answered = Answered::new(token.clone(), answer.clone());
                        (Some(Arc::new(answered)), granted.clone())
                    }
                    // The answer that it has waited for was given in the conversation of its agent.
                    CallStatus::Waiting(Wait { awaited: Awaited::Agent { .. }, .. }, granted) => {
                        (None, ApprovedCall { waited: true, ..granted.clone() })
                    }
                    _ => return Err(cannot(format!("`{call}` has asked nothing"))),
                };
                self.set(call, ApprovedCall { answered, ..granted }.may_run());
            }
            Fact::CallCleared { call, .. } => {
                let granted = match &self.call(call)?.status {
                    CallStatus::Doubtful(granted) => granted,
                    // A call that was to run again, and whose tool was asked what became of it.
                    CallStatus::Allowed(granted) if granted.again => granted,
                    _ => return Err(cannot(format!("`{call}` is not in doubt"))),
                };
                let granted =
                    ApprovedCall { again: false, begun: false, waited: false, ..granted.clone() };
                self.set(call, granted.may_run());
            }
            Fact::CallStarted { call } => {
                let CallStatus::Allowed(granted) = &self.call(call)?.status else {
                    return Err(cannot(format!("`{call}` cannot start now")));
                };
                let granted = ApprovedCall { begun: true, ..granted.clone() };
                self.set(call, CallStatus::Started(granted));
            }
            Fact::CallSettled { result, .. } => {
                match &self.call(result.call_id())?.status {
                    CallStatus::Doubtful(_) => {}
                    CallStatus::Waiting(Wait { awaited, .. }, _)
                        if !matches!(awaited, Awaited::Approval { .. }) => {}
                    _ => {
                        let id = result.call_id();
                        return Err(cannot(format!("`{id}` does not wait for a result")));
                    }
                }
                self.set(result.call_id(), CallStatus::Finished(result.clone()));
                self.close()?;
            }
            Fact::CallFinished { result, spent: _ } => {
                if let CallStatus::Finished(_) = self.call(result.call_id())?.status {
                    return Err(cannot(format!("`{}` has a result already", result.call_id())));
                }
                self.set(result.call_id(), CallStatus::Finished(result.clone()));
                self.close()?;
            }
            Fact::CallEnded { tool, result } => {
                let id = result.call_id();
                if !self.call_ids.contains(id) {
                    return Err(cannot(format!("there was no call `{id}` that could end")));
                }
                let text = late_end(tool, result);
                self.news.push(text.clone());
                self.window.ended.insert(id.to_owned(), (text, kept_as(result)));
            }
            Fact::UnkeptAgentStarted { call } => {
                self.call(call)?;
            }
            // The transcript does not depend on them.
            Fact::SourcesRead { .. } | Fact::CompactionStarted { .. } => {}
            Fact::ToolsFound { call, tools } => {
                self.call(call)?;
                self.add_found_tools(call, tools)?;
            }
            Fact::ContextCleared { .. }
            | Fact::ContextCompacted { .. }
            | Fact::CompactionFailed { .. }
            | Fact::VendorSummaryRefused { .. }
            | Fact::ContextOverflowed { .. }
            | Fact::ContextPinned { .. } => self.apply_context_fact(fact)?,
        }
        self.untouched = false;
        self.compacting = match fact {
            Fact::CompactionStarted { provider, model } => Some((provider.clone(), model.clone())),
            // They say that its process has ended.
            Fact::Reopened { .. } | Fact::Forked {} => self.compacting.take(),
            _ => None,
        };
        Ok(())
    }

    /// Returns what has to be done next.
    pub fn next(&self) -> Action {
        match &self.phase {
            RunPhase::Ended(None) => Action::AwaitUser,
            RunPhase::Ended(Some(outcome)) => Action::Finish(*outcome),
            RunPhase::Asking => Action::CallProvider,
            RunPhase::Checking => Action::CheckAnswer,
            RunPhase::Calling(ToolCallStates { then: AfterCalls::End(_), .. }) => Action::Settle,
            RunPhase::Calling(calling) => calling.next(),
        }
    }

    /// The call of this id, if it waits for a decision.
    pub(crate) fn undecided(&self, id: &str) -> Option<&ToolCall> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        let call = calling.get(id)?;
        match call.status {
            CallStatus::Asked => Some(&call.call),
            _ => None,
        }
    }

    /// The last call that was denied since the model has answered. The permissions may say that this ends the run.
    pub(crate) fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }

    /// The call that has started the run, if it is that of an agent in a call.
    pub(crate) fn parent_call(&self) -> Option<&CallerName> {
        self.called_by.as_ref()
    }

    /// Whether the call that has started the run, if it is known, is one in an answer to this message.
    pub(crate) fn is_called_by(&self, message: &str) -> bool {
        self.called_by.as_ref().is_none_or(|caller| caller.is_asked_by(message))
    }

    /// What a person had allowed of this call before it had to be decided again.
    pub(crate) fn allowed_before(&self, id: &str) -> Option<&CallBinding> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        calling.get(id)?.allowed_before.as_deref()
    }

    /// Whether the run can take a message of the user now.
    pub(crate) fn can_take_message(&self) -> bool {
        match self.phase {
            // The vendor continues its own answer only if that comes last.
            RunPhase::Asking => !self.transcript.messages().last().is_some_and(Message::is_paused),
            RunPhase::Ended(outcome) => outcome == Some(Outcome::Answered),
            RunPhase::Checking => true,
            RunPhase::Calling(_) => false,
        }
    }

    /// Whether the model is to be asked, or is being asked.
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

    /// Whether a run goes on: the model has to be asked, an answer has to be checked, or calls have no result.
    pub fn is_going(&self) -> bool {
        !matches!(self.phase, RunPhase::Ended(_))
    }

    /// What was allowed for a call that has no result yet.
    pub(crate) fn approved(&self, id: &str) -> Option<&ApprovedCall> {
        let RunPhase::Calling(calling) = &self.phase else { return None };
        match &calling.get(id)?.status {
            CallStatus::Allowed(granted)
            | CallStatus::Started(granted)
            | CallStatus::Doubtful(granted)
            | CallStatus::Waiting(_, granted) => Some(granted),
            CallStatus::Asked | CallStatus::Finished(_) => None,
        }
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallState> {
        let calling = match &self.phase {
            RunPhase::Calling(calling) => Some(calling),
            RunPhase::Asking | RunPhase::Checking | RunPhase::Ended(_) => None,
        };
        calling.into_iter().flat_map(|calling| calling.calls.iter())
    }

    /// How many calls of the last answer have a decision, and how many calls it has.
    pub(crate) fn decided(&self) -> (usize, usize) {
        let RunPhase::Calling(calling) = &self.phase else { return (0, 0) };
        (calling.calls.len().saturating_sub(calling.undecided), calling.calls.len())
    }

    /// Fails for a message that was applied before: a fact that is applied twice was said once.
    pub(super) fn check_is_new(&self, message: &Message) -> Result<(), Error> {
        match self.transcript.messages().last().is_some_and(|last| last.id() == message.id()) {
            true => Err(cannot("the user has said this very message before")),
            false => Ok(()),
        }
    }

    /// Adds the user's message to the transcript, with the news that the model has not received yet.
    pub(super) fn tell(&mut self, message: &Message) -> Result<(), Error> {
        if self.news.is_empty() {
            return self.push(message.clone());
        }
        self.push(message.with_text(self.news.join("\n")))?;
        self.news.clear();
        Ok(())
    }

    /// Counts what the run uses from this message on.
    pub(super) fn reset_counts(&mut self, begun_at: usize) {
        self.begun_at = begun_at;
        self.turns = 0;
        self.usage = Usage::default();
        self.window.begin_run();
    }

    pub(super) fn asking(&self, what: &str) -> Result<(), Error> {
        match self.phase {
            RunPhase::Asking => Ok(()),
            RunPhase::Calling(_) => Err(cannot(format!("{what} while calls wait for results"))),
            RunPhase::Ended(_) | RunPhase::Checking => {
                Err(cannot(format!("{what} before it was asked")))
            }
        }
    }

    /// Adds the model's message to the transcript. Its calls then wait for their results.
    fn add_model_message(
        &mut self,
        message: Option<&Message>,
        called: AfterCalls,
        ended: AfterCalls,
    ) -> Result<(), Error> {
        let then = match message {
            Some(message) => {
                self.push(message.clone())?;
                if message.calls().next().is_some() {
                    self.add_call_ids(message);
                    self.phase = RunPhase::Calling(ToolCallStates::of(message, called));
                    return Ok(());
                }
                ended
            }
            None => ended,
        };
        self.set_next_phase(then);
        Ok(())
    }

    /// The ids that a new call must not have.
    pub(crate) fn call_ids(&self) -> &Arc<HashSet<String>> {
        &self.call_ids
    }

    pub(super) fn add_call_ids(&mut self, message: &Message) {
        let ids = message.calls().map(|call| call.id().to_owned());
        Arc::make_mut(&mut self.call_ids).extend(ids);
    }

    pub(super) fn call(&self, id: &str) -> Result<&CallState, Error> {
        let call = match &self.phase {
            RunPhase::Calling(calling) => calling.get(id),
            RunPhase::Asking | RunPhase::Checking | RunPhase::Ended(_) => None,
        };
        call.ok_or_else(|| cannot(format!("no call `{id}` waits for a result")))
    }

    pub(super) fn set_read_only(&mut self, id: &str, reads: bool) {
        if let RunPhase::Calling(calling) = &mut self.phase {
            calling.set_read_only(id, reads);
        }
    }

    pub(super) fn set(&mut self, id: &str, status: CallStatus) {
        if let RunPhase::Calling(calling) = &mut self.phase {
            calling.set(id, status);
        }
    }

    /// If every call has its result, adds them to the transcript as one message, in the order of the calls.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        let RunPhase::Calling(ToolCallStates { asked, calls, unfinished: 0, then, .. }) =
            &self.phase
        else {
            return Ok(());
        };
        let results = calls.iter().filter_map(|call| match &call.status {
            CallStatus::Finished(result) => Some(result.clone()),
            _ => None,
        });
        let mut results: Vec<ToolResult> = results.collect();
        let place = self.transcript.messages().len();
        self.window.reads.extend(reading(calls).map(|number| (place, number)));
        let place = place.saturating_sub(1);
        self.window.long.extend(long(calls).map(|number| (place, number)));
        // Some vendors read the tools that a search has found in the place of its result's text.
        let is_read =
            |(_, result): &(usize, &mut ToolResult)| !self.window.is_search(result.call_id());
        let all = results.iter_mut().enumerate().rev();
        if let Some((number, last)) = all.filter(|_| !self.news.is_empty()).find(is_read) {
            let news = ToolContent::Text(mem::take(&mut self.news).join("\n"));
            let content = last.content().iter().cloned().chain([news]);
            *last = last.said_as(last.outcome(), content);
            self.window.news.push((place.saturating_add(1), number));
        }
        let (message, then) = (Message::results_of(asked, results), *then);
        self.push(message)?;
        self.set_next_phase(then);
        Ok(())
    }

    pub(super) fn set_next_phase(&mut self, then: AfterCalls) {
        let checks = then == AfterCalls::End(Outcome::Answered) && self.wanted.is_some();
        if let Some(wanted) = &mut self.wanted {
            wanted.unchecked = checks;
        }
        self.phase = match then {
            AfterCalls::Ask => RunPhase::Asking,
            AfterCalls::End(_) if checks => RunPhase::Checking,
            AfterCalls::End(outcome) => RunPhase::Ended(Some(outcome)),
        };
    }

    pub(super) fn checking(&mut self) -> Result<&mut OutputRequirement, Error> {
        let checking = matches!(self.phase, RunPhase::Checking);
        let wanted = self.wanted.as_mut().filter(|_| checking);
        wanted.ok_or_else(|| cannot("there is no answer to be checked"))
    }
}

/// The numbers of those calls that only read and have succeeded.
fn reading(calls: &[CallState]) -> impl Iterator<Item = usize> + '_ {
    let read = |call: &CallState| match &call.status {
        CallStatus::Finished(result) => call.reads && result.outcome() == CallOutcome::Succeeded,
        _ => false,
    };
    (0..).zip(calls).filter(move |(_, call)| read(call)).map(|(number, _)| number)
}

/// The numbers of those calls that have succeeded and have long arguments.
fn long(calls: &[CallState]) -> impl Iterator<Item = usize> + '_ {
    let went_well = |call: &CallState| match &call.status {
        CallStatus::Finished(result) => result.outcome() == CallOutcome::Succeeded,
        _ => false,
    };
    let is_long = move |call: &CallState| call.call.arguments().len() > LONG && went_well(call);
    (0..).zip(calls).filter(move |(_, call)| is_long(call)).map(|(number, _)| number)
}

pub(super) fn cannot(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Transcript, message)
}
