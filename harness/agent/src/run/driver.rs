//! The driver: does the actions that the machine asks for and records what happened. However a run
//! ends, even if it is dropped or panics, the conversation can be sent afterwards and its record is
//! true.

use std::{collections::HashSet, mem, path::PathBuf, pin::pin, time::Duration};

use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    clock::RunClock,
    early_calls::EarlyCalls,
    outcome::RunRecord,
    progress::ProgressReceiver,
    run::{RunInput, StopTokens},
    step::RunStep,
    stop_signals::{RunSignal, StopSignals, warning_event},
    tool_calls::CallContexts,
};
use crate::{
    Action, Chat, Event, Outcome, Reply, Stopped, events::watcher::RunWatcher,
    machine::call_states::ApprovedCall, model_notices::lost_notice, steps::steps::KeptPlaces,
    subagent::host::ParentRun,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, InterruptCause, Repeat},
    message::{CallOutcome, Message, ToolCall, ToolContent, ToolResult},
    policy::{LimitReached, LimitWarning, RunGuard},
    provider::{Accumulator, ContextTokens, OutputMode, RetryAccounting, Usage},
    tool::{CallIdentity, LateEnd, ended_in, mark_reported},
    trace::{Happened, RunParticipants},
};

/// How long the journal may take to write the end of a run.
pub(crate) const LAST_WRITE: Duration = Duration::from_secs(10);

/// One run, from a message of the user to its end. The module `turn` asks the model, and `calls`
/// runs the calls of its answer.
pub(crate) struct RunDriver<'a> {
    pub(crate) chat: &'a mut Chat,
    pub(crate) watch: RunWatcher<'a>,
    /// Reports what stops the run from outside.
    pub(crate) stop_signals: StopSignals,
    /// The program cancels it to stop the run after the current turn.
    after_turn: CancellationToken,
    /// Cancelled when the run is over. Tools on threads of their own learn of the end only by this.
    pub(crate) over: DropGuard,
    /// What has arrived of the current answer.
    pub(crate) answer: Option<Accumulator>,
    /// Whether the model was asked and no fact records the outcome yet.
    pub(crate) asked: bool,
    /// What has arrived of the current summary.
    pub(crate) summary: Option<Accumulator>,
    /// Why the last summary could not be used.
    pub(crate) last_fault: Option<String>,
    /// Calls of the current answer that have started early.
    pub(crate) early: EarlyCalls,
    pub(crate) contexts: CallContexts,
    /// The progress that running tools report.
    pub(crate) reports: ProgressReceiver,
    /// Calls whose decision was made before this run, perhaps by other rules.
    pub(crate) calls_from_previous_process: HashSet<String>,
    /// Places that were taken for calls before the action in which the calls run.
    pub(crate) kept: KeptPlaces,
    /// Calls whose start was shown to the watcher and whose end was not, each with its start time.
    pub(crate) shown: Vec<(ToolCall, Instant)>,
    /// How the model was told the form of the final answer, once a provider has reported it.
    pub(crate) answer_way: Option<OutputMode>,
    /// What failures have cost this run.
    pub(crate) ledger: RetryAccounting,
    /// Whether the current request went to a provider that the agent falls back to.
    pub(crate) fell_back: bool,
    /// The first error of the run.
    error: Option<Error>,
    /// Why the agent of a call could not continue. The call stays open.
    pub(crate) cut_off: Option<Error>,
    /// The limit that stopped the run.
    limit: Option<LimitReached>,
    /// What the last request consisted of.
    pub(crate) context: ContextTokens,
    /// Whether the beginning of the run is recorded. Until then, the machine describes the run
    /// before.
    begun: bool,
    /// Whether the run came to its end. If not, it was dropped.
    ended: bool,
    /// The guard and the clock of the run before. They are restored if this run does not begin.
    before: Option<(RunGuard, RunClock)>,
}

impl<'a> RunDriver<'a> {
    pub(crate) fn new(
        chat: &'a mut Chat,
        watch: RunWatcher<'a>,
        stops: StopTokens,
        tool_time: Option<Duration>,
    ) -> Self {
        let StopTokens { now: cancellation, after_turn } = stops;
        let over = cancellation.child_token().drop_guard();
        let reports = ProgressReceiver::default();
        let progress_sender = || reports.progress_sender();
        let stop_signals =
            StopSignals::new(cancellation, &chat.guard, chat.clock.elapsed(), progress_sender());
        chat.clock.start();
        let caller = ParentRun::of(chat, progress_sender(), watch.is_watched());
        let contexts = CallContexts::new(chat, caller, tool_time);
        let above = chat.options.as_ref().and_then(|options| options.caller.as_ref()?.listener());
        Self {
            chat,
            watch: watch.below(above),
            stop_signals,
            after_turn,
            over,
            answer: None,
            asked: false,
            summary: None,
            last_fault: None,
            early: EarlyCalls::default(),
            contexts,
            reports,
            calls_from_previous_process: HashSet::new(),
            kept: KeptPlaces::default(),
            shown: Vec::new(),
            answer_way: None,
            ledger: RetryAccounting::default(),
            fell_back: false,
            error: None,
            cut_off: None,
            limit: None,
            context: ContextTokens::default(),
            begun: false,
            ended: false,
            before: None,
        }
    }

    /// Sets the guard and the clock of the run before, which are restored if this run does not
    /// begin.
    pub(crate) fn after(mut self, before: Option<(RunGuard, RunClock)>) -> Self {
        self.before = before;
        self
    }

    /// A run for one action that the program asks for between two runs. It does not belong to the run before, so the time
    /// limit counts from now. Dropping it leaves the conversation unchanged.
    pub(crate) fn between_runs(chat: &'a mut Chat) -> Self {
        let clock = mem::take(&mut chat.clock);
        let run = Self::for_one_action(chat);
        run.chat.clock = clock;
        run
    }

    /// A run for one action of another driver. Dropping it leaves the conversation as it is.
    pub(crate) fn for_one_action(chat: &'a mut Chat) -> Self {
        let mut run = Self::new(chat, RunWatcher::default(), StopTokens::default(), None);
        run.ended = true;
        run
    }

    /// The result of a run that was finished in a process that is gone.
    pub(crate) fn finished_reply(chat: &mut Chat, outcome: Outcome) -> Result<Reply, Stopped> {
        let mut run = RunDriver::for_one_action(chat);
        run.begun = true;
        run.result(outcome)
    }

    /// Drives the run to its end.
    pub(crate) async fn drive(&mut self, input: RunInput, anew: bool) -> Result<Reply, Stopped> {
        self.trace_begin(&input);
        let said = match &input {
            RunInput::Say(message) => Some(message.clone()),
            RunInput::Resume => None,
        };
        let outcome = match self.begin_with(input, anew).await {
            Ok(()) => {
                self.begun = true;
                self.emit(Event::RunStarted { said: said.as_ref() });
                self.drive_to_end().await
            }
            Err(error) => self.fail(error),
        };
        if outcome == Outcome::Waiting {
            self.chat.tell_waiting();
        }
        self.announce();
        let outcome = match self.cut_off.take().filter(|_| outcome == Outcome::Waiting) {
            None => outcome,
            Some(error) => {
                self.error = Some(error.cleaned(self.chat.agent.secrets()));
                Outcome::Failed
            }
        };
        let (usage, _) = self.used();
        self.trace_end(outcome);
        self.emit(Event::RunEnded { outcome, usage: &usage });
        self.result(outcome)
    }

    /// Records what the run begins with, if it can begin.
    pub(crate) async fn begin_with(&mut self, input: RunInput, anew: bool) -> Result<(), Error> {
        self.stop_signals.check_timer(self.chat.durable.is_some())?;
        self.chat.check_options()?;
        self.chat.check_answer()?;
        self.catch_up().await?;
        self.record_late_ends().await?;
        if let RunInput::Resume = input {
            self.chat.check_output_spec()?;
        }
        let limits = anew.then(|| Box::new(self.chat.guard.run_limits()));
        match input {
            RunInput::Say(message) => {
                message.check_sendable()?;
                // Calls that the run before has left open do not run any more.
                if self.chat.machine.is_going() {
                    self.find_out_first().await?;
                    self.settle()?;
                }
                self.chat.record(&Fact::UserSaid { message, limits })?;
                let options = self.chat.options.as_ref().filter(|options| options.is_kept);
                if let Some(called_by) =
                    options.and_then(|options| options.caller.as_ref()?.started_run_fact())
                {
                    self.chat.record(&called_by)?;
                }
                self.chat.record_sources_of_caller()?;
                match self.chat.wanted_fact() {
                    Some(wanted) => self.chat.record(&wanted),
                    None => Ok(()),
                }
            }
            RunInput::Resume if self.chat.machine.is_going() => {
                self.expire().await?;
                self.chat.resume_children().await?;
                self.chat.doubt_answered()?;
                let earlier = self.chat.machine.open_calls();
                self.calls_from_previous_process =
                    earlier.map(|call| call.id().to_owned()).collect();
                match limits {
                    Some(_) => self.chat.record(&Fact::Resumed { message: None, limits }),
                    None => self.record_end_of_wait(),
                }
            }
            RunInput::Resume => match self.chat.machine.resumption()? {
                Fact::Resumed { message, .. } => {
                    self.chat.record(&Fact::Resumed { message, limits })
                }
                _ => Ok(()),
            },
        }
    }

    /// Records that a run which waited asks the model now: if the process ends meanwhile, nobody knows what the answer has
    /// cost, although only answers from outside were written.
    fn record_end_of_wait(&mut self) -> Result<(), Error> {
        if !self.chat.has_waited || !self.chat.machine.is_asking() {
            return Ok(());
        }
        self.chat.has_waited = false;
        self.chat.record(&Fact::Resumed { message: None, limits: None })
    }

    /// Closes the waits whose time is over. The run can be stopped while the journal does not answer.
    async fn expire(&mut self) -> Result<(), Error> {
        loop {
            let Self { chat, stop_signals, .. } = &mut *self;
            tokio::select! {
                biased;
                over = chat.expire() => return over,
                signal = stop_signals.next_signal() => if let RunSignal::Stop(_) = signal {
                    return Err(unanswered());
                },
            }
        }
    }

    /// Asks the tools what became of calls in doubt, before the new message of the user is
    /// recorded.
    async fn find_out_first(&mut self) -> Result<(), Error> {
        let Chat { machine, agent, .. } = &*self.chat;
        let can_reconcile = |call: &&ToolCall| {
            agent.tools().get(call.name()).is_some_and(|tool| tool.can_reconcile())
        };
        // Calls that were to run again no longer will, so their outcome has to be found out, too.
        let doubtful = machine.in_doubt().chain(machine.to_repeat().filter(can_reconcile));
        let doubtful: Vec<ToolCall> = doubtful.cloned().collect();
        match self.find_out(&doubtful).await? {
            // If the run's time is over, the remaining calls are in doubt. If each message asked
            // about them again, a tool that does not answer would block all messages.
            None | Some(InterruptCause::Limit { .. }) => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::Transcript,
                "the run was stopped while tools found out what became of calls in doubt: nothing was said",
            )),
        }
    }

    /// Brings the journal and the conversation to the same state before anything is said. The run
    /// can be stopped while the journal does not answer.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        loop {
            let Self { chat, stop_signals, .. } = &mut *self;
            tokio::select! {
                biased;
                caught_up = chat.catch_up() => return caught_up,
                signal = stop_signals.next_signal() => if let RunSignal::Stop(_) = signal {
                    return Err(unanswered());
                },
            }
        }
    }

    /// Writes all remaining facts when the run is over, so that they are stored when the program
    /// learns of the end.
    async fn write_last(&mut self, outcome: Outcome) -> Outcome {
        if !self.chat.is_behind() {
            return outcome;
        }
        let written = match timeout(LAST_WRITE, self.chat.save()).await {
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
                self.error.get_or_insert(error.cleaned(self.chat.agent.secrets()));
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
            // While the end was written, a call that the run waited for may have been answered.
            if outcome != Outcome::Waiting || self.chat.machine.next() == Action::AwaitAnswers {
                return outcome;
            }
            self.chat.has_waited = true;
            if let Err(error) = self.record_end_of_wait() {
                return self.fail(error);
            }
        }
    }

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
            let asked = self.reports.progress_sender().take_wait_time();
            self.stop_signals.postpone(asked);
            self.chat.clock.postpone(asked);
            if let Err(error) = self.record_steering() {
                return self.fail(error);
            }
            if self.must_stop_after_turn() && self.chat.machine.next() == Action::CallProvider {
                if let Err(error) = self.interrupt(None) {
                    return self.fail(error);
                }
                continue;
            }
            let step = self.chat.step();
            if let (RunStep::Ask, true) = (&step, self.chat.is_behind()) {
                // Earlier facts are written before the model is asked again.
                if let Err(error) = self.write().await {
                    return self.fail(error);
                }
                continue;
            }
            let done = match step {
                RunStep::Move(due) => self.edit_context(due).await,
                RunStep::Ask => self.ask().await,
                RunStep::Stop(cause) => self.record_interrupt(cause),
                RunStep::Decide { calls, surplus } => match self.refuse(&surplus) {
                    Ok(()) => self.decide(&calls).await,
                    failed => failed,
                },
                RunStep::Run(calls) => self.call(&calls).await,
                // Calls that began early have to end before the other calls begin.
                RunStep::AwaitResults => self.call(&[]).await,
                RunStep::FindOut(calls) => match self.find_out(&calls).await {
                    Ok(Some(cause)) => self.record_interrupt(cause),
                    found => found.map(drop),
                },
                RunStep::AwaitAnswers => return Outcome::Waiting,
                RunStep::Check => self.check_answer().await,
                RunStep::Settle => self.settle(),
                // If the answer was not kept, its calls may still have started early.
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

    /// Whether the program has asked to stop after the current turn.
    pub(crate) fn must_stop_after_turn(&self) -> bool {
        self.chat.machine.turns() > 0 && self.after_turn.is_cancelled()
    }

    /// Reports limits that are near or cannot be enforced.
    fn warn(&mut self) {
        for warning in self.chat.guard.warnings() {
            self.report_warning(&warning);
        }
    }

    pub(crate) fn report_warning(&mut self, warning: &LimitWarning) {
        self.chat.tracer.warning(warning);
        self.watch.tell(warning_event(warning));
    }

    fn trace_begin(&mut self, input: &RunInput) {
        let agent = self.chat.agent.clone();
        let said = match input {
            RunInput::Say(message) => Some(message),
            RunInput::Resume => None,
        };
        let transcript = self.chat.transcript().clone();
        let conversation = transcript.messages().first().or(said).map(Message::id);
        let cast = RunParticipants {
            provider: agent.provider_and_model().0,
            model: agent.provider_and_model().1,
            tools: self.chat.tools().tools().iter().map(|tool| tool.name().to_owned()).collect(),
            conversation,
            journaled: self.chat.durable.as_ref().map(|durable| &**durable.id()),
            earlier: transcript.messages().len(),
            caller: self
                .chat
                .options
                .as_ref()
                .and_then(|options| options.caller.as_ref()?.trace_ids()),
        };
        self.chat.tracer.begin(cast, said);
        self.contexts.are_traced_as(self.chat.tracer.run_name());
        self.chat.tracer.add_open_calls(self.chat.machine.open_calls());
    }

    fn trace_end(&mut self, outcome: Outcome) {
        let (usage, turns) = self.used();
        let ended = Happened::RunEnded {
            outcome: outcome.to_string(),
            answered: outcome == Outcome::Answered,
            turns,
            usage,
            cost: self.chat.guard.cost(),
        };
        self.chat.tracer.end(ended);
        self.chat.guard.ended();
        self.ended = true;
    }

    /// Records that the run was stopped, by a failure or by the program.
    pub(crate) fn interrupt(&mut self, failure: Option<Error>) -> Result<(), Error> {
        let failure = failure.map(|error| error.cleaned(self.chat.agent.secrets()));
        let cause = match &failure {
            Some(error) => InterruptCause::Failure { error: error.to_string() },
            None => InterruptCause::Program,
        };
        if self.error.is_none() {
            self.error = failure;
        }
        self.record_interrupt(cause)
    }

    pub(crate) fn record_interrupt(&mut self, cause: InterruptCause) -> Result<(), Error> {
        if let InterruptCause::Limit { limit, scope, detail } = &cause {
            let detail = detail.clone();
            self.limit = Some(LimitReached { limit: *limit, scope: *scope, detail });
        }
        let (message, usage) = match self.answer.take() {
            Some(answer) => {
                let usage = answer.usage();
                (answer.into_partial(), usage)
            }
            None => (None, Usage::default()),
        };
        let asked = mem::take(&mut self.asked);
        let recorded = self.chat.record(&Fact::Interrupted { message, usage, cause, asked });
        recorded.and(self.count_early())
    }

    /// Records the calls that began early, now that the answer is complete or interrupted. Those
    /// that are part of the answer count as started. The others are dropped.
    pub(crate) fn count_early(&mut self) -> Result<(), Error> {
        let Self { chat, early, .. } = self;
        let machine = &chat.machine;
        let (counting, others) = early.count(|id| machine.undecided(id));
        let mut all = Ok(());
        for (call, decision) in counting {
            let call = call.id().to_owned();
            let decided = chat.record(&Fact::CallDecided { call: call.clone(), decision });
            all = all.and(decided).and(chat.record(&Fact::CallStarted { call }));
        }
        for call in others {
            self.dropped(&call);
        }
        all
    }

    /// Reports that the result of a call that began early is thrown away.
    pub(crate) fn dropped(&mut self, call: &ToolCall) {
        self.chat.tracer.dropped(call);
        self.chat.guard.dropped();
        self.shown.retain(|(shown, _)| shown.id() != call.id());
        self.watch.tell(Event::ToolDropped { call });
    }

    /// Records how calls have ended that were told to stop and went on. Their large results are kept like those of other
    /// calls. If the run is stopped meanwhile, the next one hears the rest.
    pub(crate) async fn record_late_ends(&mut self) -> Result<(), Error> {
        let (ends, mut all) = (self.late_ends(), Ok(()));
        for LateEnd { number, identity, outcome, content, file } in ends {
            // In a box, since this is rare and the future is large.
            let readable =
                Box::pin(self.readable_late_result(&identity.call, outcome, content, file));
            let Some(result) = readable.await else {
                break;
            };
            all = all.and(self.record_late_end(number, &identity, result));
        }
        all
    }

    /// The result of a call that has ended late, as the model reads it, unless the run is stopped.
    async fn readable_late_result(
        &mut self,
        call: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
        file: Option<PathBuf>,
    ) -> Option<ToolResult> {
        let mut warnings = Vec::new();
        let result = {
            let Self { chat, contexts, stop_signals, early, .. } = &mut *self;
            let (spills, limit) = contexts.spilling().for_call(chat.machine.transcript(), false);
            let (tools, room) = (chat.agent.tools(), (limit, spills.as_ref()));
            let mut readable = pin!(async {
                match file {
                    Some(path) => tools.readable_file(room, call, &path).await,
                    None => tools.readable_in(room, call, outcome, content).await,
                }
            });
            loop {
                tokio::select! {
                    biased;
                    result = &mut readable => break Some(result),
                    signal = stop_signals.next_signal() => match signal {
                        RunSignal::Stop(_) => break None,
                        RunSignal::Warn(warning) => warnings.push(warning),
                    },
                    () = early.drive() => {}
                }
            }
        };
        warnings.iter().for_each(|warning| self.report_warning(warning));
        result
    }

    /// The same where a result must be recorded at once. The next request waits for the ends that are left out here,
    /// because their results are large.
    pub(crate) fn record_short_late_ends(&mut self) -> Result<(), Error> {
        let mut all = Ok(());
        for end in self.late_ends() {
            let LateEnd { number, identity, outcome, content, file } = end;
            let limit = self.contexts.spilling().limit();
            let tools = self.chat.agent.tools();
            if file.is_none() && tools.is_within(&content, (limit, None)) {
                let result = tools.readable_to(limit, &identity.call, outcome, content);
                all = all.and(self.record_late_end(number, &identity, result));
            }
        }
        all
    }

    fn late_ends(&self) -> Vec<LateEnd> {
        let Chat { machine, recorded_ends, .. } = &*self.chat;
        let wants = |number: u64, call: &CallIdentity| {
            !recorded_ends.contains(&number) && machine.needs_end_of(call)
        };
        ended_in(self.chat.id(), wants)
    }

    fn record_late_end(
        &mut self,
        number: u64,
        identity: &CallIdentity,
        result: ToolResult,
    ) -> Result<(), Error> {
        self.chat.recorded_ends.insert(number);
        mark_reported(number);
        if self.chat.machine.has_given_end(&identity.tool, &result) {
            return Ok(());
        }
        self.watch.tell(Event::ToolEnded { tool: &identity.tool, result: &result });
        let tool = identity.tool.to_string();
        self.chat.record(&Fact::CallEnded { tool, result })
    }

    /// The result of a call that may have run before, in a process that is gone. That it failed
    /// now, or did not start, says nothing about the earlier attempt.
    pub(crate) fn of_all_tries(&self, result: ToolResult) -> ToolResult {
        let granted = self.chat.machine.approved(result.call_id());
        let has_entered = self.contexts.has_entered(result.call_id());
        // An agent continues where it was, so its result covers all attempts, if it was entered.
        let is_repeated = |granted: &&ApprovedCall| {
            let goes_on = granted.repeat == Repeat::Continues && has_entered;
            granted.has_run() && !goes_on && !granted.effects.is_read_only()
        };
        let before = granted.filter(is_repeated);
        let unknown = matches!(
            result.outcome(),
            CallOutcome::Failed | CallOutcome::NotStarted | CallOutcome::Denied
        );
        let Some(granted) = before.filter(|_| unknown) else { return result };
        let (outcome, text) = lost_notice(granted.effects);
        let text = format!("{text} It was to run again, and this came of it:");
        let content = std::iter::once(ToolContent::Text(text));
        let content = content.chain(result.content().iter().cloned());
        result.said_as(outcome, content)
    }

    /// Records what became of every call that has no result. It goes on if recording one fails, so
    /// that the conversation in memory is complete, and returns the first error.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.emit_agent_events();
        let mut all = self.count_early();
        for (call, result, elapsed) in self.early.stop() {
            all = all.and(self.record_end((call, result, elapsed)));
        }
        let facts: Vec<Fact> = self.chat.machine.settlement().collect();
        for fact in facts {
            let Fact::CallFinished { result, .. } = fact else { continue };
            let result = self.contexts.with_the_truth(self.chat, result);
            all = all.and(self.finish(result));
        }
        all
    }

    /// Records the result of a call, and reports it if the call's start was reported.
    pub(crate) fn finish(&mut self, result: ToolResult) -> Result<(), Error> {
        let shown = self.shown.iter().position(|(call, _)| call.id() == result.call_id());
        if let Some(at) = shown {
            let (call, begun) = self.shown.swap_remove(at);
            let elapsed = begun.elapsed();
            self.watch.tell(Event::ToolResult { call: &call, result: &result, elapsed });
        }
        self.record_result(result)
    }

    /// Passes on the events of the agents that calls run.
    pub(crate) fn emit_agent_events(&mut self) {
        while let Some(event) = self.reports.of_agents() {
            event.show(|event| self.watch.tell(event));
        }
    }

    /// Ends the run because of an error.
    fn fail(&mut self, error: Error) -> Outcome {
        let stays_open = self.must_leave_calls_open(&error);
        if self.error.is_none() {
            self.error = Some(error.cleaned(self.chat.agent.secrets()));
        }
        if !stays_open {
            self.close();
        }
        Outcome::Failed
    }

    /// Leaves a conversation that can be sent, whatever was going on. Errors while recording are
    /// ignored: the first error of the run is already on its way, or nobody waits for one.
    fn close(&mut self) {
        // The conversation before the run stays as it is.
        if !self.begun {
            return;
        }
        let going = match self.chat.machine.next() {
            // The run's calls wait for somebody outside of the run.
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
            let error = self.error.take();
            let _ = self.interrupt(error);
        }
        let _ = self.settle();
    }

    fn result(&mut self, outcome: Outcome) -> Result<Reply, Stopped> {
        let machine = &self.chat.machine;
        let transcript = machine.transcript().clone();
        let begun_at = if self.begun { machine.begun_at() } else { transcript.messages().len() };
        let mut run_record = RunRecord::of(transcript, begun_at);
        (run_record.usage, run_record.turns) = self.used();
        run_record.cost = self.chat.guard.cost();
        run_record.spent = self.chat.guard.budget().spent();
        run_record.context = self.context;
        run_record.provenances = machine.provenances().clone();
        run_record.trace = self.chat.tracer.run();
        if outcome == Outcome::Unfit {
            run_record.faults = self.chat.machine.faults().to_vec();
        }
        match outcome {
            Outcome::Answered => {
                Ok(Reply::new(run_record).answered_by(self.chat.machine.answered_by()))
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
                let (error, limit) = (self.error.take(), self.limit.take());
                Err(Stopped::new(outcome, error, limit, run_record))
            }
        }
    }

    /// The tokens and the turns of this run.
    fn used(&self) -> (Usage, u32) {
        let machine = &self.chat.machine;
        if self.begun { (machine.usage(), machine.turns()) } else { (Usage::default(), 0) }
    }

    pub(crate) fn emit(&mut self, event: Event<'_>) {
        self.watch.tell(event);
    }
}

impl Drop for RunDriver<'_> {
    fn drop(&mut self) {
        self.record_dropped_summary();
        if !self.ended {
            self.close();
            self.trace_end(Outcome::Cancelled);
        }
        self.chat.options = None;
        self.chat.has_waited |= self.chat.machine.next() == Action::AwaitAnswers;
        self.chat.clock.stop();
        if let Some((guard, clock)) = self.before.take().filter(|_| !self.begun) {
            (self.chat.guard, self.chat.clock) = (guard, clock);
        }
    }
}

/// The error of a run that was stopped before it began, while the journal did not answer.
pub(crate) fn unanswered() -> Error {
    let what = "the run was stopped before the journal had answered: nothing was said";
    Error::new(ErrorKind::Journal, what)
}
