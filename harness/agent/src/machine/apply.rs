//! Applies facts to the machine. The `match` has no wildcard, so a new kind of fact does not compile until it
//! is handled.

use std::{mem, sync::Arc};

use serde_json::Value;

use super::{
    call_states::{
        AfterCalls, ApprovedCall, CallState, CallStatus, CallerName, RunPhase, ToolCallStates,
        cannot,
    },
    machine::Machine,
    outcome::Outcome,
    prefix::{set_prefix, set_unused},
    provenance::Provenance,
};
use crate::{
    model_notices::{denial_notice, late_end},
    output::requirement::OutputRequirement,
};
use harness_core::{
    context::{LONG, kept_as},
    error::Error,
    journal::{
        AnswerCheck, Awaited, Decider, Decision, Fact, InterruptCause, RecordedLimits, Wait,
        WantedAnswer,
    },
    message::{CallOutcome, Message, Role, ToolContent, ToolResult, Transcript},
    provider::{StopReason, Usage},
    tool::Answered,
};

impl Machine {
    /// Applies a fact to the state.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript), and changes nothing,
    /// if the fact cannot come next.
    pub fn apply(&mut self, fact: &Fact) -> Result<(), Error> {
        match fact {
            Fact::Given { transcript } => self.apply_given(transcript)?,
            Fact::UserSaid { message, limits: _ } => self.begin_run(message)?,
            Fact::AnswerWanted { answer } => self.apply_wanted(answer)?,
            Fact::AnswerAccepted {} => {
                self.checking()?.unchecked = false;
                self.phase = RunPhase::Ended(Some(Outcome::Answered));
            }
            Fact::AnswerRejected { message: Some(message), faults, by } => {
                self.reject_answer(message, faults, *by)?
            }
            Fact::AnswerRejected { message: None, faults, by: _ } => self.end_unfit(faults)?,
            // The run continues with its open calls, and its turns and tokens are counted from zero.
            Fact::Resumed { message: None, limits: Some(_) } if self.is_calling() => {
                self.reset_counts(self.transcript.messages().len());
            }
            Fact::Steered { message } => self.apply_steered(message)?,
            Fact::CalledBy { conversation, call, message } => {
                self.apply_called_by(conversation, call, message.as_deref())?
            }
            Fact::Resumed { message, limits } => {
                self.apply_resumed(message.as_ref(), limits.as_deref())?
            }
            Fact::Reopened { doubtful } => self.apply_reopened(doubtful)?,
            Fact::Forked {} => self.fork()?,
            Fact::GrantRevoked { call, scope } => {
                if let RunPhase::Calling(calling) = &mut self.phase {
                    calling.revoke(call, scope);
                }
            }
            Fact::ModelReplied { message, stop, usage, provider, model, asked_model } => self
                .apply_reply(
                    message.as_ref(),
                    *stop,
                    usage,
                    (provider, model, asked_model.as_deref()),
                )?,
            Fact::Interrupted { message, usage, cause, asked: _ } => {
                self.apply_interrupted(message.as_ref(), usage, cause)?
            }
            Fact::CallDecided { call, decision } => self.apply_decided(call, decision)?,
            Fact::CallUndecided { call } => self.apply_undecided(call)?,
            Fact::CallWaits { call, wait } => self.apply_waits(call, wait)?,
            Fact::CallAnswered { call, answer, .. } => self.apply_answered(call, answer)?,
            Fact::CallCleared { call, .. } => self.apply_call_cleared(call)?,
            Fact::CallStarted { call } => self.apply_started(call)?,
            Fact::CallSettled { result, .. } => self.apply_settled(result)?,
            Fact::CallFinished { result, spent: _ } => self.apply_finished(result)?,
            Fact::CallEnded { tool, result } => self.apply_late_end(tool, result)?,
            Fact::UnkeptAgentStarted { call } => {
                self.call(call)?;
            }
            // These facts do not change the transcript.
            Fact::SourcesRead { .. } | Fact::CompactionStarted { .. } => {}
            Fact::ToolsFound { call, tools } => self.apply_found(call, tools)?,
            Fact::ContextCleared { results, arguments, after, before: _ } => {
                self.clear(results, arguments, *after)?;
            }
            Fact::ContextCompacted {
                messages,
                kept,
                summary,
                vendor,
                request,
                after,
                before: _,
            } => {
                self.compact(*messages, kept, summary, vendor.as_deref(), *after)?;
                self.usage.add(&request.usage);
            }
            Fact::CompactionFailed { request, stopped, vendor, too_large, cause: _ } => {
                self.window.compactions.count(*stopped, *vendor, *too_large);
                self.usage.add(&request.usage);
            }
            Fact::VendorSummaryRefused { cause: _ } => self.refuse()?,
            Fact::ContextOverflowed { provider, model, fallback, window, tokens, estimated } => {
                self.apply_overflow((provider, model, *fallback), *window, *tokens, *estimated)?;
            }
            Fact::ContextPinned { text } => self.window.pin(text),
            Fact::PrefixSet { .. } => set_prefix(self, fact)?,
            Fact::PrefixUnused {} => set_unused(self)?,
        }
        self.untouched = false;
        self.compacting = match fact {
            Fact::CompactionStarted { provider, model } => {
                Some(Box::new((provider.clone(), model.clone())))
            }
            // The process that requested the summary has ended. `compacting` is kept, so that a later fact can
            // record the failure.
            Fact::Reopened { .. } | Fact::Forked {} => self.compacting.take(),
            _ => None,
        };
        Ok(())
    }

    /// Applies a given transcript, which can only be the first fact.
    fn apply_given(&mut self, transcript: &Transcript) -> Result<(), Error> {
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
        Ok(())
    }

    /// Applies a message of the user that begins a run.
    fn begin_run(&mut self, message: &Message) -> Result<(), Error> {
        if let RunPhase::Calling(_) = self.phase {
            return Err(cannot("the user cannot speak while calls wait for results"));
        }
        if message.role() != Role::User {
            return Err(cannot("only the user can begin a run; send a message of `Role::User`"));
        }
        self.check_is_new(message)?;
        let begun_at = self.transcript.messages().len();
        self.tell(message)?;
        self.reset_counts(begun_at);
        (self.wanted, self.denied, self.called_by) = (None, None, None);
        self.phase = RunPhase::Asking;
        Ok(())
    }

    /// Applies the form of the answer that the program wants.
    fn apply_wanted(&mut self, answer: &WantedAnswer) -> Result<(), Error> {
        let has_begun = self.begun_at.saturating_add(1) == self.transcript.messages().len();
        if !has_begun || self.wanted.is_some() || !matches!(self.phase, RunPhase::Asking) {
            return Err(cannot("the wanted answer can only be set when a run begins"));
        }
        self.wanted = Some(Box::new(OutputRequirement::new(answer, self.begun_at)));
        Ok(())
    }

    /// Applies the rejection of an answer. The model answers again.
    fn reject_answer(
        &mut self,
        message: &Message,
        faults: &[String],
        by: AnswerCheck,
    ) -> Result<(), Error> {
        self.checking()?;
        if message.role() != Role::User || self.tries_left(by) == 0 {
            return Err(cannot(
                "the model answers again only after a message of the user, and only if an attempt is left",
            ));
        }
        self.check_is_new(message)?;
        self.add_notice(message)?;
        self.checking()?.reject(by, faults);
        self.set_next_phase(AfterCalls::Ask);
        Ok(())
    }

    /// Applies the rejection of an answer when no attempt is left. The run ends.
    fn end_unfit(&mut self, faults: &Vec<String>) -> Result<(), Error> {
        let wanted = self.checking()?;
        wanted.faults.clone_from(faults);
        wanted.unchecked = false;
        self.phase = RunPhase::Ended(Some(Outcome::Unfit));
        Ok(())
    }

    /// Applies a message that the user has sent during the run.
    fn apply_steered(&mut self, message: &Message) -> Result<(), Error> {
        if message.role() != Role::User || !self.can_take_message() {
            return Err(cannot(
                "only the user can steer a run, and only before the model is asked or when it has \
                 answered: not while calls wait for results or an answer is paused",
            ));
        }
        self.check_is_new(message)?;
        self.tell(message)?;
        self.set_next_phase(AfterCalls::Ask);
        Ok(())
    }

    /// Applies the call of another conversation that has started this run.
    fn apply_called_by(
        &mut self,
        conversation: &str,
        call: &str,
        message: Option<&str>,
    ) -> Result<(), Error> {
        if !matches!(self.phase, RunPhase::Asking) {
            return Err(cannot("a run is started by a call only when it begins"));
        }
        let (conversation, call) = (conversation.to_owned(), call.to_owned());
        let message = message.map(str::to_owned);
        self.called_by = Some(Box::new(CallerName { conversation, call, message }));
        Ok(())
    }

    /// Applies the continuation of a run that had stopped.
    fn apply_resumed(
        &mut self,
        message: Option<&Message>,
        limits: Option<&RecordedLimits>,
    ) -> Result<(), Error> {
        let due = self.resumption()?;
        let was_unfit = matches!(self.phase, RunPhase::Ended(Some(Outcome::Unfit)));
        let unchecked = usize::from(self.is_unchecked());
        let begun_at = self.transcript.messages().len().saturating_sub(unchecked);
        let Fact::Resumed { message: due, .. } = due else { return Ok(()) };
        // Failed requests for a summary do not count any more.
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
        if let Some(wanted) = self.wanted.as_mut().filter(|_| was_unfit || limits.is_some()) {
            wanted.rejected = [0, 0];
        }
        match self.is_unchecked() {
            true => self.phase = RunPhase::Checking,
            false => self.set_next_phase(AfterCalls::Ask),
        }
        Ok(())
    }

    fn apply_reply(
        &mut self,
        message: Option<&Message>,
        stop: StopReason,
        usage: &Usage,
        (provider, model, asked_model): (&str, &str, Option<&str>),
    ) -> Result<(), Error> {
        self.asking("the model cannot reply")?;
        self.denied = None;
        let asked = asked_model.unwrap_or(model);
        let sent = self.sent_view_for(provider, asked).messages().len();
        let ended = match stop {
            StopReason::Complete | StopReason::ToolCalls => AfterCalls::End(Outcome::Answered),
            StopReason::Truncated => AfterCalls::End(Outcome::Truncated),
            StopReason::Refused => AfterCalls::End(Outcome::Refused),
            StopReason::Unsupported(item) => AfterCalls::End(Outcome::Unsupported(item)),
            StopReason::Paused => AfterCalls::Ask,
        };
        let called = if stop.lets_calls_run() { AfterCalls::Ask } else { ended };
        // The mark of a message shows how the message ended. Requests contain only the parts that the mark
        // allows.
        let marked = match stop {
            StopReason::Paused => message.map(Message::paused),
            StopReason::Refused => message.map(Message::refused),
            StopReason::Complete
            | StopReason::ToolCalls
            | StopReason::Truncated
            | StopReason::Unsupported(_) => None,
        };
        self.add_model_message(marked.as_ref().or(message), called, ended)?;
        self.mark_origin(message, Some((provider, asked)));
        let from = Arc::new(Provenance {
            provider: provider.to_owned(),
            model: model.to_owned(),
            asked_model: asked_model.map(str::to_owned),
            stop,
            usage: *usage,
        });
        if let Some(message) = message {
            self.provenances.insert(message, Arc::clone(&from));
        }
        self.prefix.conclude_refusal(Some(provider));
        self.turns = self.turns.saturating_add(1);
        self.usage.add(usage);
        let is_same = self.answered_by() == Some((provider, model));
        self.window.record_sent(sent, usage, (provider, model), is_same);
        self.answered_by = Some(from);
        Ok(())
    }

    /// Applies the stop of a run, with the partial answer if the model has begun one.
    fn apply_interrupted(
        &mut self,
        message: Option<&Message>,
        usage: &Usage,
        cause: &InterruptCause,
    ) -> Result<(), Error> {
        let outcome = match cause {
            InterruptCause::Program => Outcome::Cancelled,
            InterruptCause::Limit { limit, .. } => Outcome::Limit(*limit),
            InterruptCause::Denial { .. } => Outcome::Denied,
            InterruptCause::Failure { .. } => Outcome::Failed,
        };
        let end = AfterCalls::End(outcome);
        self.prefix.conclude_refusal(None);
        match &mut self.phase {
            RunPhase::Calling(calling) if message.is_none() => {
                calling.then = end;
            }
            RunPhase::Asking => {
                self.add_model_message(message, end, end)?;
                // The fact does not name the model.
                self.mark_origin(message, None);
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
        Ok(())
    }

    /// Applies the decision that a call is allowed or denied.
    fn apply_decided(&mut self, call: &str, decision: &Decision) -> Result<(), Error> {
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
                        Decider::Always { call, scope } => Some((call.clone(), scope.clone())),
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
            self.denied = Some(call.to_owned());
        }
        self.set(call, status);
        self.close()?;
        Ok(())
    }

    /// Withdraws the decision about a call, so that the call is decided again.
    fn apply_undecided(&mut self, call: &str) -> Result<(), Error> {
        match &self.call(call)?.status {
            CallStatus::Allowed(granted) if !granted.has_run() => {}
            _ => return Err(cannot(format!("`{call}` cannot be decided again now"))),
        }
        self.set(call, CallStatus::Asked);
        Ok(())
    }

    /// Records that a call waits for something outside of the run.
    fn apply_waits(&mut self, call: &str, wait: &Wait) -> Result<(), Error> {
        let granted = match (&self.call(call)?.status, &wait.awaited) {
            (CallStatus::Asked, Awaited::Approval { .. }) => ApprovedCall::default(),
            (CallStatus::Allowed(granted), Awaited::Result) => granted.clone(),
            (CallStatus::Started(granted), Awaited::Answer { .. } | Awaited::Agent { .. }) => {
                ApprovedCall { begun: true, ..granted.clone() }
            }
            _ => return Err(cannot(format!("`{call}` cannot wait for that now"))),
        };
        self.set(call, CallStatus::Waiting(wait.clone(), granted));
        Ok(())
    }

    /// Applies the answer to a question that the call's tool or agent has asked.
    fn apply_answered(&mut self, call: &str, answer: &Value) -> Result<(), Error> {
        let (answered, granted) = match &self.call(call)?.status {
            CallStatus::Waiting(Wait { awaited: Awaited::Answer { token, .. }, .. }, granted) => {
                let answered = Answered::new(token.clone(), answer.clone());
                (Some(Arc::new(answered)), granted.clone())
            }
            // The answer was given in the conversation of the call's agent, so this fact contains no answer.
            CallStatus::Waiting(Wait { awaited: Awaited::Agent { .. }, .. }, granted) => {
                (None, ApprovedCall { waited: true, ..granted.clone() })
            }
            _ => return Err(cannot(format!("`{call}` has asked nothing"))),
        };
        self.set(call, ApprovedCall { answered, ..granted }.may_run());
        Ok(())
    }

    /// Records that a call in doubt has had no effect, so it may run.
    fn apply_call_cleared(&mut self, call: &str) -> Result<(), Error> {
        let granted = match &self.call(call)?.status {
            // This start has had no effect. Earlier starts may have had an effect, so they stay recorded.
            CallStatus::Started(granted) => granted.clone(),
            CallStatus::Doubtful(granted) => granted.cleared(),
            // The call's tool has found out that the earlier start had no effect.
            CallStatus::Allowed(granted) if granted.again => granted.cleared(),
            _ => return Err(cannot(format!("`{call}` is not in doubt"))),
        };
        self.set(call, granted.may_run());
        Ok(())
    }

    fn apply_started(&mut self, call: &str) -> Result<(), Error> {
        let CallStatus::Allowed(granted) = &self.call(call)?.status else {
            return Err(cannot(format!("`{call}` cannot start now")));
        };
        self.set(call, CallStatus::Started(granted.clone()));
        Ok(())
    }

    /// Applies the result of a call that waited or was in doubt.
    fn apply_settled(&mut self, result: &ToolResult) -> Result<(), Error> {
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
        Ok(())
    }

    /// Applies the result of a call that has run, or that did not run.
    fn apply_finished(&mut self, result: &ToolResult) -> Result<(), Error> {
        if let CallStatus::Finished(_) = self.call(result.call_id())?.status {
            return Err(cannot(format!("`{}` has a result already", result.call_id())));
        }
        self.set(result.call_id(), CallStatus::Finished(result.clone()));
        self.close()?;
        Ok(())
    }

    /// Applies the late end of a call that was stopped but went on.
    fn apply_late_end(&mut self, tool: &str, result: &ToolResult) -> Result<(), Error> {
        let id = result.call_id();
        if !self.call_ids.contains(id) {
            return Err(cannot(format!("there was no call `{id}` that could end")));
        }
        let text = late_end(tool, result);
        self.news.push(text.clone());
        self.window.ended.insert(id.to_owned(), (text, kept_as(result)));
        Ok(())
    }

    /// Applies the tools that a search has found.
    fn apply_found(&mut self, call: &str, tools: &[String]) -> Result<(), Error> {
        self.call(call)?;
        self.add_found_tools(call, tools)?;
        Ok(())
    }

    /// Records that the conversation was opened again in the middle of a run.
    fn apply_reopened(&mut self, doubtful: &[String]) -> Result<(), Error> {
        match &mut self.phase {
            RunPhase::Calling(calling) => calling.reopen(doubtful),
            RunPhase::Asking | RunPhase::Checking => {}
            RunPhase::Ended(_) => {
                return Err(cannot("no run was going on when the conversation was opened again"));
            }
        }
        Ok(())
    }

    /// Adds a message that the library has written with the role user.
    pub(super) fn add_notice(&mut self, message: &Message) -> Result<(), Error> {
        self.tell(&message.by_program())
    }

    /// Fails if this message is already the last message. So a fact that was written twice is not applied
    /// twice.
    pub(super) fn check_is_new(&self, message: &Message) -> Result<(), Error> {
        match self.transcript.messages().last().is_some_and(|last| last.id() == message.id()) {
            true => Err(cannot("the user has said this very message before")),
            false => Ok(()),
        }
    }

    /// Adds a message of the user to the transcript, together with the reports that the model has not received
    /// yet.
    pub(super) fn tell(&mut self, message: &Message) -> Result<(), Error> {
        if self.news.is_empty() {
            return self.push(message.clone());
        }
        self.push(message.with_text(self.news.join("\n")))?;
        self.news.clear();
        Ok(())
    }

    /// Counts turns and tokens from zero, beginning with the message at this index.
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

    /// Adds the model's message to the transcript. If the message has calls, the run waits for their results.
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
                    self.phase = RunPhase::Calling(Box::new(ToolCallStates::of(message, called)));
                    return Ok(());
                }
                ended
            }
            None => ended,
        };
        self.set_next_phase(then);
        Ok(())
    }

    pub(super) fn add_call_ids(&mut self, message: &Message) {
        let ids = message.calls().map(|call| call.id().to_owned());
        Arc::make_mut(&mut self.call_ids).extend(ids);
    }

    pub(super) fn call(&self, id: &str) -> Result<&CallState, Error> {
        self.call_state(id).ok_or_else(|| cannot(format!("no call `{id}` waits for a result")))
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

    /// If every call has its result, adds the results to the transcript as one message, in the order of the
    /// calls.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        let RunPhase::Calling(calling) = &self.phase else { return Ok(()) };
        let ToolCallStates { asked, calls, unfinished: 0, then, .. } = &**calling else {
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
        // Some vendors replace the text of a search's result by the found tools, so the reports are added to the
        // result of another call.
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
        wanted.map(|it| &mut **it).ok_or_else(|| cannot("there is no answer to be checked"))
    }

    /// Ends the run of a fork. Its open calls belong to the original conversation.
    pub(super) fn fork(&mut self) -> Result<(), Error> {
        let outcome = Outcome::Cancelled;
        // No call reads what a fork says.
        self.called_by = None;
        match &mut self.phase {
            RunPhase::Ended(_) => return Ok(()),
            RunPhase::Asking | RunPhase::Checking => self.phase = RunPhase::Ended(Some(outcome)),
            RunPhase::Calling(calling) => calling.then = AfterCalls::End(outcome),
        }
        for fact in Vec::from_iter(self.settlement()) {
            self.apply(&fact)?;
        }
        Ok(())
    }
}

/// The positions of the calls that only read and have succeeded.
fn reading(calls: &[CallState]) -> impl Iterator<Item = usize> + '_ {
    let read = |call: &CallState| match &call.status {
        CallStatus::Finished(result) => call.reads && result.outcome() == CallOutcome::Succeeded,
        _ => false,
    };
    (0..).zip(calls).filter(move |(_, call)| read(call)).map(|(number, _)| number)
}

/// The positions of the calls that have succeeded and have long arguments.
fn long(calls: &[CallState]) -> impl Iterator<Item = usize> + '_ {
    let went_well = |call: &CallState| match &call.status {
        CallStatus::Finished(result) => result.outcome() == CallOutcome::Succeeded,
        _ => false,
    };
    let is_long = move |call: &CallState| call.call.arguments().len() > LONG && went_well(call);
    (0..).zip(calls).filter(move |(_, call)| is_long(call)).map(|(number, _)| number)
}
