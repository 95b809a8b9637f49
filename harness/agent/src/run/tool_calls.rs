//! Decides about the calls of one answer, runs them, and records their results.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};

use super::{
    call_contexts::{CallContextParts, CallHashes, still_running_result},
    driver::{CallProgress, RunDriver},
    early_calls::{FinishedCall, RunningCall},
    options::RunTools,
    progress::{CallSignal, ProgressEvent},
    stop_signals::RunSignal,
    writing::{let_run_agent, write_facts},
};
use crate::{
    Event,
    approval::{ApprovalOutcome, approval_holds, is_run_by_program, may_repeat_call, repeat_of},
    compaction::window::refuse_copy,
    machine::call_states::ApprovedCall,
    model_notices::{
        lost_notice, not_started_notice, repeated_notice, stopped_notice, surplus_notice,
        unfound_notice,
    },
};
use harness_core::{
    error::Error,
    journal::{Awaited, Decision, Fact, InterruptCause, Repeat, Wait},
    message::{CallOutcome, ToolCall, ToolContent, ToolResult},
    policy::ApprovalRequest,
    tool::{
        ConcurrencyPermit, DispatchOutcome, GRACE, ReconcileFailure, ReconcileOutcome, Review,
        SideEffects, TOOL_SEARCH, ToolContext, equal_still_running,
    },
    trace::SpanScope,
};

/// The maximum number of calls that run at the same time.
pub(crate) const AT_ONCE: usize = 8;

/// Begins a call. Nothing happens before the future is polled.
pub(crate) fn begin(
    offered: &RunTools,
    call: &ToolCall,
    context: ToolContext,
    place: Option<ConcurrencyPermit>,
    scope: SpanScope,
) -> RunningCall {
    let (offered, call) = (offered.clone(), call.clone());
    Box::pin(async move {
        let context = context.with_permit(place.as_ref());
        let begun = Instant::now();
        let result = scope.call(offered.tools().dispatch_call(&call, &context)).await;
        drop(place);
        (call, result, begun.elapsed())
    })
}

/// A call that waits for a permit of its tool's concurrency limit.
type QueuedCall = Pin<Box<dyn Future<Output = (DueCall, Option<ConcurrencyPermit>)> + Send>>;

/// A call that is about to begin.
#[derive(Clone)]
struct DueCall {
    call: ToolCall,
    /// Whether the start of the call is already recorded.
    started: bool,
}

impl RunDriver<'_> {
    /// Records results for the calls that exceed the largest number of calls in one answer. They do not run.
    pub(crate) fn refuse(&mut self, surplus: &[ToolCall]) -> Result<(), Error> {
        for call in surplus {
            let most = self.state.spending.guard().of_one_answer(usize::MAX);
            let content = [ToolContent::Text(surplus_notice(most))];
            let result = ToolResult::new(call.id(), CallOutcome::NotStarted, content);
            self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
            self.record_result(result)?;
        }
        Ok(())
    }

    /// Decides, one call after the other, which calls may run.
    pub(crate) async fn decide(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        let agent = self.state.agent.clone();
        for call in calls {
            let id = call.id().to_owned();
            self.calls.calls_from_previous_process.remove(&id);
            if refuse_copy(self, call)? {
                continue;
            }
            let mut near = Vec::new();
            let evaluated = {
                let Self { state, stop_signals, calls: CallProgress { early, .. }, .. } =
                    &mut *self;
                let before = state.machine.allowed_before(call.id());
                let mut evaluate = pin!(state.approval_policy(&agent).evaluate(call, before));
                loop {
                    tokio::select! {
                        biased;
                        signal = stop_signals.next_signal() => match signal {
                            RunSignal::Stop(cause) => break Err(cause),
                            RunSignal::Warn(warning) => near.push(warning),
                        },
                        outcome = &mut evaluate => break Ok(outcome),
                        () = early.drive() => {}
                    }
                }
            };
            near.iter().for_each(|warning| self.report_warning(warning));
            let outcome = match evaluated {
                Ok(ApprovalOutcome::NeedsPerson(question, review)) => {
                    // Boxed, because this future is large and rarely needed.
                    let asked = Box::pin(self.ask_person(call, &question, review));
                    let Some(outcome) = asked.await? else {
                        return Ok(());
                    };
                    outcome
                }
                Ok(outcome) => outcome,
                Err(cause) => return self.record_interrupt(cause),
            };
            let ApprovalOutcome::Decided(decision) = outcome else { continue };
            let is_denied = matches!(decision, Decision::Deny { .. });
            self.state.record(&Fact::CallDecided { call: id, decision })?;
            self.announce();
            if is_denied && self.state.must_stop_on_denial() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends an approval request about a call. If the decision is deferred, the call is recorded as waiting.
    /// Returns `None` if the run was stopped or has to do another action first.
    async fn ask_person(
        &mut self,
        call: &ToolCall,
        question: &ApprovalRequest,
        review: Option<Review>,
    ) -> Result<Option<ApprovalOutcome>, Error> {
        let agent = self.state.agent.clone();
        let tool = self.state.tools().get(call.name());
        let in_journal = self.state.is_in_journal();
        let repeat = tool.map(|tool| repeat_of(tool, in_journal)).unwrap_or_default();
        let options = self.state.options.as_ref();
        let paused = options.and_then(|options| Some(options.caller.as_ref()?.pause()));
        let asked_at = Instant::now();
        let outcome = tokio::select! {
            biased;
            () = self.stop_signals.cancelled() => return self.interrupt(None).map(|()| None),
            outcome = self.state.approval_policy(&agent).ask(question, repeat, review.as_ref()) => outcome,
            () = self.calls.early.drive() => return Ok(None),
        };
        drop(paused);
        // The time that a person takes does not count.
        self.stop_signals.postpone(asked_at.elapsed());
        self.state.spending.clock.postpone(asked_at.elapsed());
        if let ApprovalOutcome::Deferred { until } = outcome {
            self.suspend_call(call, approval_of(question, repeat, review), until)?;
        }
        Ok(Some(outcome))
    }

    /// Runs the calls of one batch, at most [`AT_ONCE`] at the same time. Also waits for the calls that started
    /// early.
    pub(crate) async fn call(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        self.call_all(calls.iter().map(|call| DueCall { call: call.clone(), started: false })).await
    }

    async fn call_all(&mut self, calls: impl Iterator<Item = DueCall>) -> Result<(), Error> {
        let offered = self.state.offered();
        // The person who answered may also have stopped the run.
        if self.stop_signals.is_cancelled() {
            return self.interrupt(None);
        }
        let mut waiting = calls;
        let mut running: FuturesUnordered<RunningCall> = self.calls.early.take().collect();
        let mut queued: FuturesUnordered<QueuedCall> = FuturesUnordered::new();
        let mut ready = None;
        let cause = loop {
            while ready.is_some() || running.len().saturating_add(queued.len()) < AT_ONCE {
                let (next, place) = match ready.take() {
                    Some((next, place)) => (next, place),
                    None => {
                        let Some(next) = waiting.next() else { break };
                        match self.place_of(&offered, next) {
                            Ok(ready) => ready,
                            Err(waits) => {
                                queued.push(waits);
                                continue;
                            }
                        }
                    }
                };
                let DueCall { call, started } = next;
                let begins = match started {
                    true => StartDecision::Now,
                    false => self.may_begin(&call).await?,
                };
                match begins {
                    StartDecision::Now => {}
                    StartDecision::Never => continue,
                    StartDecision::Stopped => return Ok(()),
                }
                let running_now = self.begin(&offered, &call, place);
                running.push(running_now);
            }
            tokio::select! {
                biased;
                signal = self.stop_signals.next_signal() => match signal {
                    RunSignal::Stop(cause) => break cause,
                    RunSignal::Warn(warning) => self.report_warning(&warning),
                },
                heard = self.calls.reports.next() => if let Some(cause) = self.handle_signal(heard).await? {
                    return self.record_interrupt(cause);
                },
                Some(served) = queued.next() => ready = Some(served),
                ended = running.next(), if !running.is_empty() || queued.is_empty() => {
                    let Some(ended) = ended else { return Ok(()) };
                    self.record_end(ended)?;
                    if let Some(call) = self.calls.contexts.caller.take_denied_call() {
                        break InterruptCause::Denial { call };
                    }
                }
            }
        };
        // Calls in the queue have not begun, so there is nothing to wait for.
        drop(queued);
        let until = Instant::now() + GRACE;
        while let Ok(Some((call, ended, elapsed))) = timeout_at(until, running.next()).await {
            let effects = offered.tools().get(call.name()).map(|tool| tool.side_effects());
            let ended = match ended {
                DispatchOutcome::Result(result) => {
                    DispatchOutcome::Result(stopped_result(result, effects.unwrap_or_default()))
                }
                waits @ DispatchOutcome::Waits { .. } => waits,
            };
            self.record_end((call, ended, elapsed))?;
        }
        drop(running);
        self.record_interrupt(cause)
    }

    /// Handles a signal of a running call. Returns the cause if the run was stopped meanwhile.
    async fn handle_signal(&mut self, heard: CallSignal) -> Result<Option<InterruptCause>, Error> {
        match heard {
            CallSignal::Progress(ProgressEvent::Progress(call, message)) => {
                self.report_progress(&call, &message)
            }
            CallSignal::Progress(ProgressEvent::Agent(event)) => {
                event.show(|event| self.watch.tell(event))
            }
            CallSignal::RunAgent(wanting) => return let_run_agent(self, wanting).await,
        }
        Ok(None)
    }

    /// Records that an allowed call starts. If the call has side effects or must not run again, the fact is
    /// written before the call starts.
    async fn may_begin(&mut self, call: &ToolCall) -> Result<StartDecision, Error> {
        if !self.may_start(call)? {
            return Ok(StartDecision::Never);
        }
        let granted = self.state.machine.approved(call.id());
        if granted.is_none_or(may_be_lost) {
            return Ok(StartDecision::Now);
        }
        let written = write_facts(self).await;
        if let Ok(true) = written {
            return Ok(StartDecision::Now);
        }
        // Corrects the recorded start, because the call has not begun.
        if written.as_ref().is_err_and(|error| self.must_leave_calls_open(error)) {
            self.state.record(&Fact::CallCleared { call: call.id().to_owned(), spent: None })?;
            return written.map(|_| StartDecision::Stopped);
        }
        let content = [ToolContent::Text(not_started_notice("the run was stopped first"))];
        let result = ToolResult::new(call.id(), CallOutcome::NotStarted, content);
        let result = self.of_all_tries(result);
        self.finish(result)?;
        written.map(|_| StartDecision::Stopped)
    }

    /// Checks once more whether an allowed call may run, and records its start. If this returns `false`, the
    /// call waits, has to be decided again, or has its result.
    pub(crate) fn may_start(&mut self, call: &ToolCall) -> Result<bool, Error> {
        if let Some(other) = self.equal_still_running(call) {
            self.refuse_repeated(call, &other)?;
            return Ok(false);
        }
        let holds = approval_holds(
            self.state,
            call,
            self.calls.calls_from_previous_process.contains(call.id()),
        );
        let approved = self.state.machine.approved(call.id());
        if let Some(approved) = approved.filter(|approved| {
            // The call began in a program that had the tool. This program does not have the tool.
            let is_gone = approved.begun && self.state.tools().get(call.name()).is_none();
            let is_over = approved.again && !may_repeat_call(self.state, call);
            // A call that may have had an effect is not decided again.
            is_gone || is_over || approved.has_run() && !holds
        }) {
            let effects = approved.effects;
            self.doubt(call, effects)?;
            return Ok(false);
        }
        // The call is decided again once, by the current rules and a new review of its tool.
        if !holds {
            self.state.approvals.calls_from_previous_process.remove(call.id());
            self.state.record(&Fact::CallUndecided { call: call.id().to_owned() })?;
            return Ok(false);
        }
        if is_run_by_program(self.state, call) {
            self.suspend_call(call, Awaited::Result, None)?;
            return Ok(false);
        }
        self.state.record(&Fact::CallStarted { call: call.id().to_owned() })?;
        Ok(true)
    }

    /// Runs started calls until they end.
    pub(crate) async fn finish_started(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        self.call_all(calls.iter().map(|call| DueCall { call: call.clone(), started: true })).await
    }

    /// Acquires a permit for a call, if its tool has a concurrency limit. If no permit is free, returns a future
    /// that waits for a permit.
    fn place_of(
        &mut self,
        offered: &RunTools,
        next: DueCall,
    ) -> Result<(DueCall, Option<ConcurrencyPermit>), QueuedCall> {
        let tool = offered.tools().get(next.call.name());
        let Some(places) = self.calls.contexts.places_of(tool) else { return Ok((next, None)) };
        let kept = self.calls.kept.take(next.call.id());
        if let Some(place) = kept.or_else(|| places.try_acquire()) {
            return Ok((next, Some(place)));
        }
        let places = places.clone();
        self.state.tracer.queued(&next.call);
        self.emit(Event::ToolQueued(&next.call));
        Err(Box::pin(async move { (next, places.acquire().await) }))
    }

    /// Records that a call waits for something outside of the run.
    fn suspend_call(
        &mut self,
        call: &ToolCall,
        awaited: Awaited,
        until: Option<u64>,
    ) -> Result<(), Error> {
        let wait = Wait::new(awaited).until(until).with_new_nonce();
        let wait = wait.having_spent(self.spent_by(call.id()));
        self.state.record(&Fact::CallWaits { call: call.id().to_owned(), wait })?;
        self.announce();
        Ok(())
    }

    /// Records a call in doubt: it had started in an earlier process, and its outcome is not known.
    fn doubt(&mut self, call: &ToolCall, effects: SideEffects) -> Result<(), Error> {
        let (outcome, text) = lost_notice(effects);
        let result = ToolResult::new(call.id(), outcome, [ToolContent::Text(text)]);
        self.record_doubt(call, result)
    }

    /// Records a call in doubt whose tool has also failed to find out the outcome.
    fn unfound(
        &mut self,
        call: &ToolCall,
        effects: SideEffects,
        (fault, why): &ReconcileFailure,
    ) -> Result<(), Error> {
        self.state.tracer.reconcile_failed(call, *fault, why);
        let (outcome, text) = unfound_notice(effects, why);
        // The text comes from the tool and may have any length.
        let tools = self.state.agent.tools();
        let result = tools.readable_now(call.id(), outcome, vec![text.into()]);
        self.record_doubt(call, result)
    }

    fn record_doubt(&mut self, call: &ToolCall, result: ToolResult) -> Result<(), Error> {
        self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
        self.record_result(result)
    }

    /// Lets tools find out the outcomes of calls that had started in an earlier process. Returns the cause if
    /// the run was stopped.
    pub(crate) async fn find_out(
        &mut self,
        calls: &[ToolCall],
    ) -> Result<Option<InterruptCause>, Error> {
        let agent = self.state.agent.clone();
        for call in calls {
            let granted = self.state.machine.approved(call.id()).cloned().unwrap_or_default();
            if self.equal_still_running(call).is_some_and(|other| other == call.id()) {
                // The call still runs, so its outcome may still change.
                self.record_doubt(call, still_running_result(call.id()))?;
                continue;
            }
            let tool = agent.tools().get(call.name()).filter(|tool| tool.can_reconcile());
            let Some(tool) = tool else {
                self.doubt(call, granted.effects)?;
                continue;
            };
            let found = {
                let of_call = CallContextParts {
                    transcript: self.state.machine.transcript(),
                    granted: self.state.machine.approved(call.id()),
                    rules: self.state.approval_policy(&agent).rules(),
                    counted: self.state.spending.agents.counted(call.id()),
                    is_unwritten: false,
                    stop: self.over.token(),
                };
                let context = self.calls.contexts.make(call, Some(tool), of_call);
                let mut found = pin!(agent.tools().reconcile(call, &context));
                loop {
                    tokio::select! {
                        biased;
                        signal = self.stop_signals.next_signal() => match signal {
                            RunSignal::Stop(cause) => break Err(cause),
                            // The warning comes again when the run continues.
                            RunSignal::Warn(_) => {}
                        },
                        heard = self.calls.reports.next() => if let Some(cause) = self.handle_signal(heard).await? {
                            break Err(cause);
                        },
                        found = &mut found => break Ok(found),
                    }
                }
            };
            match found {
                Err(cause) => return Ok(Some(cause)),
                Ok(ReconcileOutcome::Happened(result)) => {
                    self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
                    self.record_result(result)?;
                }
                Ok(ReconcileOutcome::NotHappened) => {
                    let spent = self.spent_by(call.id());
                    self.state.record(&Fact::CallCleared { call: call.id().to_owned(), spent })?;
                }
                Ok(ReconcileOutcome::Unknown(why)) => self.unfound(call, granted.effects, &why)?,
            }
        }
        Ok(None)
    }

    /// Begins a call and reports the start.
    fn begin(
        &mut self,
        offered: &RunTools,
        call: &ToolCall,
        place: Option<ConcurrencyPermit>,
    ) -> RunningCall {
        let scope = self.state.tracer.call(call, false);
        self.watch.tell(Event::ToolCall(call));
        self.calls.shown.push((call.clone(), Instant::now()));
        let tool = offered.tools().get(call.name());
        let of_call = CallContextParts {
            transcript: self.state.machine.transcript(),
            granted: self.state.machine.approved(call.id()),
            rules: self.state.approval_policy(&self.state.agent).rules(),
            counted: self.state.spending.agents.counted(call.id()),
            is_unwritten: self.state.machine.approved(call.id()).is_some_and(may_be_lost),
            stop: self.over.token(),
        };
        let context = self.calls.contexts.make(call, tool, of_call);
        begin(offered, call, context, place, scope)
    }

    fn report_progress(&mut self, call: &str, message: &str) {
        self.state.tracer.progress(call, message);
        self.emit(Event::ToolProgress { call, message });
    }

    /// The id of an equal call that still runs, although the library has asked it to stop. This may be the id
    /// of `call` itself, if a dropped run of this process started the call.
    fn equal_still_running(&self, call: &ToolCall) -> Option<String> {
        let tool = self.state.agent.tools().get(call.name())?;
        let approved = self.state.machine.approved(call.id());
        equal_still_running(self.state.id(), || CallHashes::of(Some(tool), call, approved).sameness)
    }

    /// Records the result of a call that does not begin, because an equal call still runs although the library
    /// has asked it to stop.
    fn refuse_repeated(&mut self, call: &ToolCall, other: &str) -> Result<(), Error> {
        let granted = self.state.machine.approved(call.id());
        if other == call.id() && granted.is_some_and(|granted| !granted.again) {
            return self.record_doubt(call, still_running_result(call.id()));
        }
        let text = repeated_notice(other);
        // Ids come from the server and may have any length.
        let tools = self.state.agent.tools();
        let result = tools.readable_now(call.id(), CallOutcome::NotStarted, vec![text.into()]);
        let result = self.of_all_tries(result);
        self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
        self.record_result(result)
    }

    pub(crate) fn record_end(&mut self, (call, ended, elapsed): FinishedCall) -> Result<(), Error> {
        self.emit_agent_events();
        let result = match ended {
            DispatchOutcome::Result(result) => {
                if let Some(awaited) = self.awaited_below(&result) {
                    self.state.tracer.ran(&call, elapsed);
                    self.calls.hide(&call);
                    return self.suspend_call(&call, awaited, None);
                }
                self.of_all_tries(result)
            }
            DispatchOutcome::Waits { question, token, form } => {
                self.state.tracer.ran(&call, elapsed);
                self.calls.hide(&call);
                return self.suspend_call(&call, Awaited::Answer { question, token, form }, None);
            }
        };
        if let Some(message) = self.calls.reports.last_of(call.id()) {
            self.report_progress(call.id(), &message);
        }
        // The last result of a turn also reports late ends of stopped calls, so these are recorded first.
        let heard = self.record_short_late_ends();
        let result = self.state.spending.guard().noted(&call, result);
        self.state.tracer.ran(&call, elapsed);
        self.calls.hide(&call);
        let found = self.record_found_tools(&call, &result);
        self.emit(Event::ToolResult { call: &call, result: &result, elapsed });
        heard.and(found).and(self.record_result(result))
    }

    /// Records the tools that a search has newly found, before the result of the search is recorded.
    pub(crate) fn record_found_tools(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<(), Error> {
        if call.name() != TOOL_SEARCH || result.outcome() != CallOutcome::Succeeded {
            return Ok(());
        }
        let Ok(arguments) = call.decoded() else { return Ok(()) };
        let mut tools = self.state.tools().find(arguments.into_map());
        let known = self.state.machine.found();
        tools.retain(|tool| !known.iter().any(|found| found.tools.contains(tool)));
        if tools.is_empty() {
            return Ok(());
        }
        self.emit(Event::ToolsFound { call, tools: &tools });
        self.state.record(&Fact::ToolsFound { call: call.id().to_owned(), tools })
    }
}

/// Whether a call may begin before the fact of its start is written. True for a call that only reads and may run
/// again. False for a call that runs an agent, because the agent writes into a conversation named after the
/// call.
fn may_be_lost(granted: &ApprovedCall) -> bool {
    granted.effects.is_read_only() && matches!(granted.repeat, Repeat::Read | Repeat::Idempotent)
}

/// Whether an allowed call begins.
enum StartDecision {
    Now,
    /// The call does not begin: it has its result, waits, or has to be decided again.
    Never,
    /// The run was stopped first.
    Stopped,
}

fn approval_of(question: &ApprovalRequest, repeat: Repeat, review: Option<Review>) -> Awaited {
    let question = question.to_question();
    Awaited::Approval { question, repeat, review: review.map(Box::new) }
}

/// The result of a tool that failed because the library had asked it to stop. The text first says that the tool
/// did not run to its end. The tool's own text follows.
fn stopped_result(result: ToolResult, effects: SideEffects) -> ToolResult {
    if result.outcome() != CallOutcome::Failed {
        return result;
    }
    let (outcome, truth) = stopped_notice(effects);
    let content = std::iter::once(ToolContent::Text(truth)).chain(result.content().iter().cloned());
    result.said_as(outcome, content)
}
