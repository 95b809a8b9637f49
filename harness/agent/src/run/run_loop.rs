//! The loop of a run: does the actions that the machine decides, until the run is over.

use tokio::time::timeout;

use super::{
    driver::{LAST_WRITE, RunDriver, unanswered},
    input::RunInput,
    reply::{Reply, RunRecord, Stopped, end_event},
    steering::Steering,
    step::{RunStep, next_step},
    stop_signals::RunSignal,
    writing::write_facts,
};
use crate::{
    Action, Event, Inbox, Outcome,
    approval::{doubt_answered, is_over},
    compaction::{summarize::record_dropped_summary, window::edit_context},
    conversation::state::ConversationState,
    machine::call_states::CallerName,
    output::answer_check::{check_answer, check_output_options, check_output_spec, wanted_fact},
    subagent::agents_below::resume_children,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Fact, InterruptCause, Wait},
    message::{Message, ToolCall},
    policy::BudgetUsage,
    provider::Usage,
    trace::{Happened, RunParticipants},
};

impl RunDriver<'_> {
    /// The result of a run that has ended in an earlier process.
    pub(crate) fn finished_reply(
        state: &mut ConversationState,
        outcome: Outcome,
    ) -> Result<Reply, Stopped> {
        let mut run = RunDriver::for_one_action(state);
        run.end.begun = true;
        run.result(outcome)
    }

    /// Drives the run to its end.
    pub(crate) async fn drive(&mut self, input: RunInput, anew: bool) -> Result<Reply, Stopped> {
        self.trace_begin(&input);
        let said = match &input {
            RunInput::Say(message) => Some(message.clone()),
            RunInput::Resume => None,
        };
        self.end.begins = true;
        let begun = self.begin_with(input, anew).await;
        self.end.begins = false;
        let outcome = match begun {
            Ok(()) => {
                self.end.begun = true;
                self.emit(Event::RunStarted { said: said.as_ref() });
                self.emit_withdrawn();
                if self.state.machine.waiting().next().is_some() {
                    Box::pin(self.emit_earlier_waits()).await;
                }
                self.drive_to_end().await
            }
            Err(error) => self.fail(error),
        };
        if outcome == Outcome::Waiting {
            self.state.tell_waiting();
        }
        self.announce();
        let is_cut_off = outcome == Outcome::Waiting && self.state.has_cut_off_child();
        let outcome = match self.end.cut_off.take().filter(|_| is_cut_off) {
            None => outcome,
            Some(error) => {
                self.end.error = Some(error.cleaned(self.state.agent.secrets()));
                Outcome::Failed
            }
        };
        self.trace_end(outcome);
        let result = self.result(outcome);
        if outcome == Outcome::Answered {
            self.state.spending.rest();
        }
        end_event(&result, |event| self.emit(event));
        result
    }

    /// Reports to the watchers the calls that have waited since an earlier run. If such a call waits for its
    /// agent, the waiting calls of this agent are reported, too: the agent itself does not run now.
    async fn emit_earlier_waits(&mut self) {
        let waiting = self.state.machine.waiting().filter(|(_, wait)| !is_over(wait));
        let waiting: Vec<_> =
            waiting.map(|(call, wait)| (call.clone(), wait.without_token())).collect();
        for (call, wait) in &waiting {
            self.emit(Event::ToolWaits { call, wait });
        }
        let is_agent = |(_, wait): &(_, Wait)| matches!(wait.awaited, Awaited::Agent { .. });
        let journal = self.state.durable.as_ref().and_then(|it| it.journal()).cloned();
        let named = self.state.conversation().map(str::to_owned);
        let Some((journal, name)) = journal.zip(named).filter(|_| waiting.iter().any(is_agent))
        else {
            return;
        };
        let inbox = Inbox { agent: self.state.agent.clone(), journal };
        let below = tokio::select! {
            biased;
            () = self.stop_signals.cancelled() => return,
            // If the conversation of an agent cannot be read, the run goes on without these events.
            below = inbox.waiting_with_paths(&name) => below.unwrap_or_default(),
        };
        for below in &below {
            // The journal does not have the last facts of this run yet.
            let waits = below
                .path
                .first()
                .is_some_and(|first| waiting.iter().any(|(call, _)| call.id() == &*first.call));
            if let Some(event) = below.event().filter(|_| waits) {
                self.emit(event.as_event());
            }
        }
    }

    /// Records the input with which the run begins. Fails if the run cannot begin.
    pub(crate) async fn begin_with(&mut self, input: RunInput, anew: bool) -> Result<(), Error> {
        self.stop_signals.check_timer(self.state.durable.is_some())?;
        self.state.check_options()?;
        check_output_options(self.state)?;
        self.catch_up().await?;
        self.record_late_ends().await?;
        if let RunInput::Resume = input {
            check_output_spec(self.state)?;
        }
        let limits = anew.then(|| Box::new(self.state.spending.guard().run_limits()));
        match input {
            RunInput::Say(message) => {
                self.check_speaker()?;
                message.check_sendable()?;
                // Open calls of the previous run do not run any more.
                if self.state.machine.is_going() {
                    Box::pin(self.find_out_first()).await?;
                    self.settle()?;
                }
                self.state.record(&Fact::UserSaid { message, limits })?;
                let options = self.state.options.as_ref().filter(|options| options.is_kept);
                if let Some(called_by) =
                    options.and_then(|options| options.caller.as_ref()?.started_run_fact())
                {
                    self.state.record(&called_by)?;
                }
                self.state.record_sources_of_caller()?;
                match wanted_fact(self.state) {
                    Some(wanted) => self.state.record(&wanted),
                    None => Ok(()),
                }
            }
            RunInput::Resume if self.state.machine.is_going() => {
                self.expire().await?;
                resume_children(self.state).await?;
                doubt_answered(self.state)?;
                let earlier = self.state.machine.open_calls();
                self.calls.calls_from_previous_process =
                    earlier.map(|call| call.id().to_owned()).collect();
                match limits {
                    Some(_) => self.state.record(&Fact::Resumed { message: None, limits }),
                    None => self.record_end_of_wait(),
                }
            }
            RunInput::Resume => match self.state.machine.resumption()? {
                Fact::Resumed { message, .. } => {
                    self.state.record(&Fact::Resumed { message, limits })
                }
                _ => Ok(()),
            },
        }
    }

    /// Fails if a call of another conversation has started a run in this one. Otherwise the answer to somebody
    /// else's message would become the result of the call.
    fn check_speaker(&self) -> Result<(), Error> {
        let Some(CallerName { conversation, .. }) = self.state.machine.parent_call() else {
            return Ok(());
        };
        let what = format!(
            "the conversation belongs to an agent in a call of `{conversation}`, and only this call speaks in it: \
             answer what waits in it with an inbox, say more in `{conversation}`, or fork it"
        );
        Err(Error::new(ErrorKind::Transcript, what))
    }

    /// Records that a waiting run sends a request again. If the process ends during the request, only this
    /// fact shows that the vendor may have charged for an answer.
    fn record_end_of_wait(&mut self) -> Result<(), Error> {
        if !self.state.has_waited || !self.state.machine.is_asking() {
            return Ok(());
        }
        self.state.has_waited = false;
        self.state.record(&Fact::Resumed { message: None, limits: None })
    }

    /// Ends the waits whose deadline has passed. The run can be stopped while the journal does not answer.
    async fn expire(&mut self) -> Result<(), Error> {
        loop {
            let Self { state, stop_signals, .. } = &mut *self;
            tokio::select! {
                biased;
                over = state.expire() => return over,
                signal = stop_signals.next_signal() => if let RunSignal::Stop(_) = signal {
                    return Err(unanswered());
                },
            }
        }
    }

    /// Lets tools find out the outcomes of calls in doubt, before the new message of the user is recorded.
    async fn find_out_first(&mut self) -> Result<(), Error> {
        let ConversationState { machine, agent, .. } = &*self.state;
        let can_reconcile = |call: &&ToolCall| {
            agent.tools().get(call.name()).is_some_and(|tool| tool.can_reconcile())
        };
        // Calls that were to run again will not run now, so their outcomes have to be found out, too.
        let doubtful = machine.in_doubt().chain(machine.to_repeat().filter(can_reconcile));
        let doubtful: Vec<ToolCall> = doubtful.cloned().collect();
        match self.find_out(&doubtful).await? {
            // If the time of the run is over, the remaining calls stay in doubt. An error here would block all
            // messages if a tool never answers.
            None | Some(InterruptCause::Limit { .. }) => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Transcript,
                "the run was stopped while tools found out what became of calls in doubt: the message was not added",
            )),
        }
    }

    /// Writes all pending facts at the end of the run, so that they are in the journal when the program gets
    /// the result.
    async fn write_last(&mut self, outcome: Outcome) -> Outcome {
        if !self.state.is_behind() {
            return outcome;
        }
        let written = match timeout(LAST_WRITE, Box::pin(self.state.save())).await {
            Ok(written) => written,
            Err(_) => Err(Error::new(
                ErrorKind::Journal,
                format!(
                    "the journal has not answered for {LAST_WRITE:?}: it is not known whether the end \
                     of the run is written. The next message finds it out"
                ),
            )),
        };
        match written {
            Ok(()) => outcome,
            Err(error) => {
                self.end.error.get_or_insert(error.cleaned(self.state.agent.secrets()));
                Outcome::Failed
            }
        }
    }

    /// Continues until the end of the run is written.
    async fn drive_to_end(&mut self) -> Outcome {
        loop {
            let outcome = self.run_to_end().await;
            let outcome = self.write_last(outcome).await;
            if self.should_continue_after(outcome) {
                continue;
            }
            // A call for which the run waited may have been answered while the end was written.
            if outcome != Outcome::Waiting || self.state.machine.next() == Action::AwaitAnswers {
                return outcome;
            }
            self.state.has_waited = true;
            if let Err(error) = self.record_end_of_wait() {
                return self.fail(error);
            }
        }
    }

    /// Does one action after the other. The futures of actions that are rare or do not wait for the model are boxed: a
    /// future has room for the largest action in it, and most runs wait for the model most of the time.
    async fn run_to_end(&mut self) -> Outcome {
        loop {
            self.warn();
            self.announce();
            if let Some(error) = self.watch.fault() {
                return self.fail(error);
            }
            if let Err(error) = self.record_late_ends().await {
                return self.fail(error);
            }
            let asked = self.calls.reports.progress_sender().take_wait_time();
            self.stop_signals.postpone(asked);
            self.state.spending.clock.postpone(asked);
            if let Err(error) = self.record_steering() {
                return self.fail(error);
            }
            if self.must_stop_after_turn() && self.state.machine.next() == Action::CallProvider {
                if let Err(error) = self.interrupt(None) {
                    return self.fail(error);
                }
                continue;
            }
            let step = next_step(self.state);
            if let (RunStep::Ask, true) = (&step, self.state.is_behind()) {
                // Earlier facts are written before the next request.
                if let Err(error) = write_facts(self).await {
                    return self.fail(error);
                }
                continue;
            }
            let done = match step {
                RunStep::Move(due) => Box::pin(edit_context(self, due)).await,
                RunStep::Ask => self.ask().await,
                RunStep::Stop(cause) => self.record_interrupt(cause),
                RunStep::Decide { calls, surplus } => match self.refuse(&surplus) {
                    Ok(()) => self.decide(&calls).await,
                    failed => failed,
                },
                RunStep::Run(calls) => self.call(&calls).await,
                // Calls that started early have to end before the other calls start.
                RunStep::AwaitResults => self.call(&[]).await,
                RunStep::FindOut(calls) => match Box::pin(self.find_out(&calls)).await {
                    Ok(Some(cause)) => self.record_interrupt(cause),
                    found => found.map(drop),
                },
                RunStep::AwaitAnswers => return Outcome::Waiting,
                RunStep::Check => Box::pin(check_answer(self)).await,
                RunStep::Settle => self.settle(),
                // Calls of an answer may have started early, even if the answer itself was not recorded.
                RunStep::Finish(outcome) => match self.settle() {
                    Ok(()) => return outcome,
                    failed => failed,
                },
            };
            if let Err(error) = done {
                return self.fail(error);
            }
        }
    }

    /// Whether the program has requested a stop after the current turn.
    pub(crate) fn must_stop_after_turn(&self) -> bool {
        self.state.machine.turns() > 0 && self.after_turn.is_cancelled()
    }

    /// Reports limits that are near or cannot be enforced.
    fn warn(&mut self) {
        for warning in self.state.spending.guard().warnings() {
            self.report_warning(&warning);
        }
    }

    fn trace_begin(&mut self, input: &RunInput) {
        let agent = self.state.agent.clone();
        let said = match input {
            RunInput::Say(message) => Some(message),
            RunInput::Resume => None,
        };
        let transcript = self.state.transcript().clone();
        let conversation = transcript.messages().first().or(said).map(Message::id);
        let cast = RunParticipants {
            provider: agent.provider_and_model().0,
            model: agent.provider_and_model().1,
            tools: self.state.tools().tools().iter().map(|tool| tool.name().to_owned()).collect(),
            conversation,
            journaled: self.state.durable.as_ref().map(|durable| &**durable.id()),
            earlier: transcript.messages().len(),
            caller: self
                .state
                .options
                .as_ref()
                .and_then(|options| options.caller.as_ref()?.trace_ids()),
        };
        self.state.tracer.begin(cast, said);
        self.calls.contexts.are_traced_as(self.state.tracer.run_name());
        self.state.tracer.add_open_calls(self.state.machine.open_calls());
    }

    fn trace_end(&mut self, outcome: Outcome) {
        let (usage, turns) = self.used();
        let ended = Happened::RunEnded {
            outcome: outcome.to_string(),
            answered: outcome == Outcome::Answered,
            turns,
            usage,
            cost: self.state.spending.cost(),
        };
        self.state.tracer.end(ended);
        self.state.spending.guard().ended();
        self.end.ended = true;
    }

    /// Ends the run because of an error.
    fn fail(&mut self, error: Error) -> Outcome {
        let stays_open = self.must_leave_calls_open(&error);
        if self.end.error.is_none() {
            self.end.error = Some(error.cleaned(self.state.agent.secrets()));
        }
        if !stays_open {
            self.close();
        }
        Outcome::Failed
    }

    /// Completes the conversation so that it can be sent to a model. Ignores recording errors: a run returns
    /// only its first error, and a dropped run returns none.
    fn close(&mut self) {
        // If the run has not begun, the conversation does not change.
        if !self.end.begun {
            return;
        }
        let going = match self.state.machine.next() {
            // The calls of the run wait for something outside of the run.
            Action::AwaitAnswers => return,
            Action::AwaitUser | Action::Finish(_) | Action::Settle => false,
            Action::CallProvider
            | Action::Decide(_)
            | Action::RunCalls(_)
            | Action::FindOut(_)
            | Action::CheckAnswer
            | Action::AwaitResults => true,
        };
        if going {
            let error = self.end.error.take();
            let _ = self.interrupt(error);
        }
        let _ = self.settle();
    }

    fn result(&mut self, outcome: Outcome) -> Result<Reply, Stopped> {
        let machine = &self.state.machine;
        let transcript = machine.transcript().clone();
        let begun_at =
            if self.end.begun { machine.begun_at() } else { transcript.messages().len() };
        let mut run_record = RunRecord::of(transcript, begun_at);
        (run_record.usage, run_record.turns) = self.used();
        run_record.cost = self.state.spending.cost();
        run_record.spent = match self.end.begun {
            true => self.state.spending.spent_by_run(),
            false => BudgetUsage::nothing(),
        };
        run_record.context = self.request.context;
        run_record.provenances = machine.provenances().clone();
        run_record.trace = self.state.tracer.run();
        if outcome == Outcome::Unfit {
            run_record.faults = self.state.machine.faults().to_vec();
        }
        match outcome {
            Outcome::Answered => {
                Ok(Reply::new(run_record).answered_by(self.state.machine.answered_by()))
            }
            Outcome::Limit(_)
            | Outcome::Truncated
            | Outcome::Refused
            | Outcome::Unfit
            | Outcome::Unsupported(_)
            | Outcome::Cancelled
            | Outcome::Waiting
            | Outcome::Denied
            | Outcome::Failed => {
                let (error, limit) = (self.end.error.take(), self.end.limit.take());
                Err(Stopped::new(outcome, error, limit, run_record))
            }
        }
    }

    /// The tokens and the turns of this run.
    fn used(&self) -> (Usage, u32) {
        let machine = &self.state.machine;
        if self.end.begun { (machine.usage(), machine.turns()) } else { (Usage::default(), 0) }
    }

    /// Records the messages that the user has sent during the run, if the model can get them now.
    pub(crate) fn record_steering(&mut self) -> Result<(), Error> {
        while self.is_steered() {
            if let Action::Finish(_) = self.state.machine.next() {
                // Calls of an answer may have started early, even if the answer itself was not recorded.
                self.settle()?;
            }
            let Some((message, steering)) = self.next_message() else { break };
            let fact = Fact::Steered { message: message.clone() };
            if let Err(error) = self.state.record(&fact) {
                steering.messages().push_front(message);
                return Err(error);
            }
            self.emit(Event::Steered { message: &message });
        }
        Ok(())
    }

    /// Takes the next message that the user has sent during the run.
    fn next_message(&self) -> Option<(Message, Steering)> {
        let mut steering = self.state.options.iter().flat_map(|options| options.steering());
        steering.find_map(|by| Some((by.messages().pop_front()?, by.clone())))
    }

    /// Whether the run has to continue, because the user has sent a message during the run. In the conversation of an
    /// agent in a call, only the call speaks.
    pub(crate) fn is_steered(&self) -> bool {
        let mut steering = self.state.options.iter().flat_map(|options| options.steering());
        steering.any(|steering| !steering.messages().is_empty())
            && self.state.machine.parent_call().is_none()
            && self.state.machine.can_take_message()
            && !self.must_stop_after_turn()
            && !self.stop_signals.is_cancelled()
    }

    /// Whether a run with this outcome continues, because the user has sent a message meanwhile.
    pub(crate) fn should_continue_after(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Answered && self.is_steered()
    }
}

impl Drop for RunDriver<'_> {
    fn drop(&mut self) {
        record_dropped_summary(self);
        if !self.end.ended {
            self.close();
            self.trace_end(Outcome::Cancelled);
        }
        self.state.options = None;
        self.state.has_waited |= self.state.machine.next() == Action::AwaitAnswers;
        self.state.spending.clock.stop();
        if let Some(before) = self.end.before.take().filter(|_| !self.end.begun) {
            self.state.spending.restore(before);
        }
    }
}
