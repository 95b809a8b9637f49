//! The driver: does the actions that the machine decides and records what happened. After every run, even one
//! that panicked or was dropped, the record of the conversation is correct, and the conversation can be sent
//! to a model.

use std::{collections::HashSet, mem, path::PathBuf, pin::pin, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    call_contexts::CallContexts,
    early_calls::EarlyCalls,
    kept_places::KeptPlaces,
    prefix::{PrefixChange, record_prefix_of_answer},
    progress::ProgressReceiver,
    stop_signals::{RunSignal, StopSignals, StopTokens, warning_event},
};
use crate::{
    Event,
    conversation::{spending::SpendingBefore, state::ConversationState},
    events::{announcements::announce_fact, watcher::RunWatcher},
    machine::call_states::ApprovedCall,
    model_notices::run_again_notice,
    subagent::{
        host::ParentRun,
        suspended_child::{SuspendedChild, is_transient},
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, CallSpent, Fact, InterruptCause, Repeat},
    message::{CallOutcome, ToolCall, ToolContent, ToolResult},
    policy::{LimitReached, LimitWarning},
    provider::{Accumulator, ContextTokens, OutputMode, RetryAccounting, Usage},
    tool::{CallIdentity, LateEnd, ended_in, mark_reported},
};

/// How long the journal may take to write the end of a run.
pub(crate) const LAST_WRITE: Duration = Duration::from_secs(10);

/// One run, from a message of the user to its end: its state, and the methods that record what happened.
/// `model_request` requests answers, `tool_calls` runs the calls of an answer, and `run_loop` alternates
/// between the two.
pub(crate) struct RunDriver<'a> {
    pub(crate) state: &'a mut ConversationState,
    pub(crate) watch: RunWatcher<'a>,
    /// Receives the signals that stop the run from outside.
    pub(crate) stop_signals: StopSignals,
    /// The program cancels this token to stop the run after the current turn.
    pub(crate) after_turn: CancellationToken,
    /// Cancelled when the run is over. Only this token stops tools that run on threads of their own.
    pub(crate) over: DropGuard,
    pub(crate) request: RequestProgress,
    pub(crate) summary: SummaryProgress,
    pub(crate) calls: CallProgress,
    pub(crate) end: RunEnding,
}

/// The progress of the current request.
#[derive(Default)]
pub(crate) struct RequestProgress {
    /// The part of the current answer that has arrived.
    pub(crate) answer: Option<Accumulator>,
    /// Whether a request was sent and no fact records the outcome yet.
    pub(crate) asked: bool,
    /// How the provider passed the schema of the final answer to the model, if the provider reported this.
    pub(crate) answer_way: Option<OutputMode>,
    /// The cost of failed attempts in this run.
    pub(crate) ledger: RetryAccounting,
    /// Whether the current request went to a fallback provider.
    pub(crate) fell_back: bool,
    /// The text with which the server of the current request has refused earlier reasoning.
    pub(crate) reasoning_refused: Option<String>,
    /// The change of the prefix that this request has, if it is recorded only with an answer.
    pub(crate) prefix_change: Option<Box<PrefixChange>>,
    /// Whether this request has not the prefix of the conversation, because no reasoning of its model is bound.
    pub(crate) is_without_prefix: bool,
    /// The tokens of the last request, by part: system prompt, tools, messages and reasoning.
    pub(crate) context: ContextTokens,
}

/// The progress of the current summary.
#[derive(Default)]
pub(crate) struct SummaryProgress {
    /// The part of the summary that has arrived.
    pub(crate) answer: Option<Box<Accumulator>>,
    /// Why the last summary could not be used.
    pub(crate) last_fault: Option<String>,
}

/// The running calls, and the state that is needed to run calls.
pub(crate) struct CallProgress {
    /// Calls of the current answer that have started early.
    pub(crate) early: EarlyCalls,
    pub(crate) contexts: CallContexts,
    /// Receives the progress that running tools report.
    pub(crate) reports: ProgressReceiver,
    /// Calls whose decision was made before this run, perhaps by other rules.
    pub(crate) calls_from_previous_process: HashSet<String>,
    /// Concurrency permits that were acquired before the action that runs the calls.
    pub(crate) kept: KeptPlaces,
    /// Calls whose start, but not yet their end, was reported to the watcher. Each has its start time.
    pub(crate) shown: Vec<(ToolCall, Instant)>,
    /// Results of calls that were open and now do not run, or have run before. The watcher gets them when the run has
    /// begun.
    pub(crate) withdrawn: Vec<(ToolCall, ToolResult)>,
}

/// How the run has begun, and why it ends.
#[derive(Default)]
pub(crate) struct RunEnding {
    /// The first error of the run.
    pub(crate) error: Option<Error>,
    /// Why the agent of a call could not continue. The call stays open.
    pub(crate) cut_off: Option<Error>,
    /// The limit that stopped the run.
    pub(crate) limit: Option<LimitReached>,
    /// Whether the beginning of the run is recorded. Before that, the machine still describes the previous run.
    pub(crate) begun: bool,
    /// Whether the beginning of the run is being recorded.
    pub(crate) begins: bool,
    /// Whether the run ended. `false` if its future was dropped before.
    pub(crate) ended: bool,
    /// The guard and the clock of the previous run. They are restored if this run does not begin.
    pub(crate) before: Option<SpendingBefore>,
}

impl CallProgress {
    /// Removes a call from the calls that were shown to the watcher.
    pub(crate) fn hide(&mut self, call: &ToolCall) {
        self.shown.retain(|(shown, _)| shown.id() != call.id());
    }
}

impl<'a> RunDriver<'a> {
    pub(crate) fn new(
        state: &'a mut ConversationState,
        watch: RunWatcher<'a>,
        stops: StopTokens,
        tool_time: Option<Duration>,
    ) -> Self {
        let StopTokens { now: cancellation, after_turn } = stops;
        let over = cancellation.child_token().drop_guard();
        let reports = ProgressReceiver::default();
        let progress_sender = || reports.progress_sender();
        let taken = state.spending.clock.elapsed();
        let stop_signals =
            StopSignals::new(cancellation, state.spending.guard(), taken, progress_sender());
        state.spending.clock.start();
        let caller = ParentRun::of(state, progress_sender(), watch.is_watched());
        let contexts = CallContexts::new(state, caller, tool_time);
        let above = state.options.as_ref().and_then(|options| options.caller.as_ref()?.listener());
        let calls = CallProgress {
            early: EarlyCalls::default(),
            contexts,
            reports,
            calls_from_previous_process: HashSet::new(),
            kept: KeptPlaces::default(),
            shown: Vec::new(),
            withdrawn: Vec::new(),
        };
        Self {
            state,
            watch: watch.below(above),
            stop_signals,
            after_turn,
            over,
            request: RequestProgress::default(),
            summary: SummaryProgress::default(),
            calls,
            end: RunEnding::default(),
        }
    }

    /// Sets the guard and the clock of the previous run, which are restored if this run does not begin.
    pub(crate) fn after(mut self, before: Option<SpendingBefore>) -> Self {
        self.end.before = before;
        self
    }

    /// A driver for one action that the program requests between two runs. The action does not belong to the
    /// previous run, so the time limit of the action starts now. Dropping the driver does not change the
    /// conversation.
    pub(crate) fn between_runs(state: &'a mut ConversationState) -> Self {
        let clock = mem::take(&mut state.spending.clock);
        let run = Self::for_one_action(state);
        run.state.spending.clock = clock;
        run
    }

    /// A driver for one action of another driver. Dropping the driver does not change the conversation.
    pub(crate) fn for_one_action(state: &'a mut ConversationState) -> Self {
        Self::for_watched_action(state, RunWatcher::default())
    }

    /// Like [`for_one_action`](Self::for_one_action), with watchers that get the events of the action.
    pub(crate) fn for_watched_action(
        state: &'a mut ConversationState,
        watch: RunWatcher<'a>,
    ) -> Self {
        let mut run = Self::new(state, watch, StopTokens::default(), None);
        run.end.ended = true;
        run
    }

    /// Writes pending facts and reads external answers before the run begins. The run can be stopped while the
    /// journal does not answer.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        loop {
            let Self { state, stop_signals, .. } = &mut *self;
            tokio::select! {
                biased;
                caught_up = state.catch_up() => return caught_up,
                signal = stop_signals.next_signal() => if let RunSignal::Stop(_) = signal {
                    return Err(unanswered());
                },
            }
        }
    }

    pub(crate) fn report_warning(&mut self, warning: &LimitWarning) {
        self.state.tracer.warning(warning);
        self.watch.tell(warning_event(warning));
    }

    /// Records that the run was stopped, by a failure or by the program.
    pub(crate) fn interrupt(&mut self, failure: Option<Error>) -> Result<(), Error> {
        let failure = failure.map(|error| error.cleaned(self.state.agent.secrets()));
        let cause = match &failure {
            Some(error) => InterruptCause::Failure {
                error: error.to_string(),
                public_text: Some(error.public_text()),
            },
            None => InterruptCause::Program,
        };
        if self.end.error.is_none() {
            self.end.error = failure;
        }
        self.record_interrupt(cause)
    }

    pub(crate) fn record_interrupt(&mut self, cause: InterruptCause) -> Result<(), Error> {
        if let InterruptCause::Limit { limit, scope, detail } = &cause {
            let detail = detail.clone();
            self.end.limit = Some(LimitReached { limit: *limit, scope: *scope, detail });
        }
        let prefix = record_prefix_of_answer(self);
        let (message, usage) = match self.request.answer.take() {
            Some(answer) => {
                let usage = answer.usage();
                (answer.into_partial(), usage)
            }
            None => (None, Usage::default()),
        };
        let asked = mem::take(&mut self.request.asked);
        let recorded = self.state.record(&Fact::Interrupted { message, usage, cause, asked });
        prefix.and(recorded).and(self.count_early())
    }

    /// Records the early calls, once the answer is complete or interrupted. Calls that are part of the answer
    /// count as started. The other calls are dropped.
    pub(crate) fn count_early(&mut self) -> Result<(), Error> {
        let Self { state, calls: CallProgress { early, .. }, .. } = self;
        let machine = &state.machine;
        let (counting, others) = early.count(|id| machine.undecided(id));
        let mut all = Ok(());
        for (call, decision) in counting {
            let call = call.id().to_owned();
            let decided = state.record(&Fact::CallDecided { call: call.clone(), decision });
            all = all.and(decided).and(state.record(&Fact::CallStarted { call }));
        }
        for call in others {
            self.dropped(&call);
        }
        all
    }

    /// Reports that the result of an early call is discarded.
    pub(crate) fn dropped(&mut self, call: &ToolCall) {
        self.state.tracer.dropped(call);
        self.state.spending.guard().dropped();
        self.calls.hide(call);
        self.watch.tell(Event::ToolDropped { call });
    }

    /// Records the ends of calls that continued after the library had asked them to stop. Their large results
    /// are stored like the large results of other calls. If the run is stopped meanwhile, the next run records
    /// the remaining ends.
    pub(crate) async fn record_late_ends(&mut self) -> Result<(), Error> {
        let (ends, mut all) = (self.late_ends(), Ok(()));
        for LateEnd { number, identity, outcome, content, file } in ends {
            // The future is boxed because it is large and rarely needed.
            let readable =
                Box::pin(self.readable_late_result(&identity.call, outcome, content, file));
            let Some(result) = readable.await else {
                break;
            };
            all = all.and(self.record_late_end(number, &identity, result));
        }
        all
    }

    /// The result of a call that ended after it was stopped, in the form for the model. `None` if the run is
    /// stopped meanwhile.
    async fn readable_late_result(
        &mut self,
        call: &str,
        outcome: CallOutcome,
        content: Vec<ToolContent>,
        file: Option<PathBuf>,
    ) -> Option<ToolResult> {
        let mut warnings = Vec::new();
        let result = {
            let Self { state, calls: CallProgress { contexts, early, .. }, stop_signals, .. } =
                &mut *self;
            let (spills, limit) = contexts.spilling().for_call(state.machine.transcript(), false);
            let (tools, room) = (state.agent.tools(), (limit, spills.as_ref()));
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

    /// Like [`record_late_ends`](Self::record_late_ends), but does not wait. Late ends with large results are
    /// recorded before the next request.
    pub(crate) fn record_short_late_ends(&mut self) -> Result<(), Error> {
        let mut all = Ok(());
        for end in self.late_ends() {
            let LateEnd { number, identity, outcome, content, file } = end;
            let limit = self.calls.contexts.spilling().limit();
            let tools = self.state.agent.tools();
            if file.is_none() && tools.is_within(&content, (limit, None)) {
                let result = tools.readable_to(limit, &identity.call, outcome, content);
                all = all.and(self.record_late_end(number, &identity, result));
            }
        }
        all
    }

    fn late_ends(&self) -> Vec<LateEnd> {
        let ConversationState { machine, recorded_ends, .. } = &*self.state;
        let wants = |number: u64, call: &CallIdentity| {
            !recorded_ends.contains(&number) && machine.needs_end_of(call)
        };
        ended_in(self.state.id(), wants)
    }

    fn record_late_end(
        &mut self,
        number: u64,
        identity: &CallIdentity,
        result: ToolResult,
    ) -> Result<(), Error> {
        self.state.recorded_ends.push(number);
        mark_reported(number);
        if self.state.machine.has_given_end(&identity.tool, &result) {
            return Ok(());
        }
        self.watch.tell(Event::ToolEnded { tool: &identity.tool, result: &result });
        let tool = identity.tool.to_string();
        self.state.record(&Fact::CallEnded { tool, result })
    }

    /// The result of a call that may have run before, in an earlier process. If the call has failed now or did
    /// not start, the outcome of the earlier attempt is still unknown.
    pub(crate) fn of_all_tries(&self, result: ToolResult) -> ToolResult {
        let granted = self.state.machine.approved(result.call_id());
        let has_entered = self.calls.contexts.has_entered(result.call_id());
        // An agent continues its own conversation, so its result covers all attempts.
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
        let (outcome, text) = run_again_notice(granted.effects);
        let content = std::iter::once(ToolContent::Text(text));
        let content = content.chain(result.content().iter().cloned());
        result.said_as(outcome, content)
    }

    /// Records a result for every call that has no result. If one result cannot be recorded, the remaining ones
    /// are still recorded, so that the conversation in memory is complete. Returns the first error.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.emit_agent_events();
        let mut all = self.count_early();
        for (call, result, elapsed) in self.calls.early.stop() {
            all = all.and(self.record_end((call, result, elapsed)));
        }
        let facts: Vec<Fact> = self.state.machine.settlement().collect();
        for fact in facts {
            let Fact::CallFinished { result, .. } = fact else { continue };
            let result = self.calls.contexts.with_the_truth(self.state, result);
            let machine = &self.state.machine;
            let call = machine.open_calls().find(|call| call.id() == result.call_id());
            let is_shown = self.calls.shown.iter().any(|(call, _)| call.id() == result.call_id());
            if let Some(call) = call.filter(|_| !is_shown) {
                self.calls.withdrawn.push((call.clone(), result.clone()));
            }
            all = all.and(self.finish(result));
        }
        if self.end.begun {
            self.emit_withdrawn();
        }
        all
    }

    /// Reports the results of calls that were open and do not run any more.
    pub(crate) fn emit_withdrawn(&mut self) {
        for (call, result) in mem::take(&mut self.calls.withdrawn) {
            let elapsed = Duration::ZERO;
            self.watch.tell(Event::ToolResult { call: &call, result: &result, elapsed });
        }
    }

    /// Records the result of a call, and reports it if the call's start was reported.
    pub(crate) fn finish(&mut self, result: ToolResult) -> Result<(), Error> {
        let shown = self.calls.shown.iter().position(|(call, _)| call.id() == result.call_id());
        if let Some(at) = shown {
            let (call, begun) = self.calls.shown.swap_remove(at);
            let elapsed = begun.elapsed();
            self.watch.tell(Event::ToolResult { call: &call, result: &result, elapsed });
        }
        self.record_result(result)
    }

    /// Passes the events of agents in calls to the watchers.
    pub(crate) fn emit_agent_events(&mut self) {
        while let Some(event) = self.calls.reports.of_agents() {
            event.show(|event| self.watch.tell(event));
        }
    }

    pub(crate) fn emit(&mut self, event: Event<'_>) {
        match event {
            // A watcher gets nothing of a run before its beginning.
            Event::ToolResult { call, result, .. } if self.end.begins => {
                self.calls.withdrawn.push((call.clone(), result.clone()));
            }
            _ => self.watch.tell(event),
        }
    }
}

/// The error of a run that was stopped before its beginning, while it waited for the journal.
pub(crate) fn unanswered() -> Error {
    let what = "the run was stopped before the journal had answered: the message was not added";
    Error::new(ErrorKind::Journal, what)
}

impl RunDriver<'_> {
    /// Records the result of a call, with what its agents have spent and read.
    pub(crate) fn record_result(&mut self, result: ToolResult) -> Result<(), Error> {
        let spent = self.spent_by(result.call_id());
        let read = self.calls.contexts.site(result.call_id()).and_then(|site| site.source());
        let read = read.map_or(Ok(()), |source| {
            let (call, sources) = (Some(result.call_id().to_owned()), vec![source]);
            self.state.record(&Fact::SourcesRead { call, sources })
        });
        read.and(self.state.record(&Fact::CallFinished { result, spent }))
    }

    /// The spending of a call's agents that no fact records yet.
    pub(crate) fn spent_by(&self, call: &str) -> Option<Box<CallSpent>> {
        self.state.spending.agents.take_unstated(call, self.calls.contexts.spent_by(call))
    }

    /// What a call waits for, if the agent that it has started waits or could not continue. `None` if this result is
    /// final.
    pub(crate) fn awaited_below(&mut self, result: &ToolResult) -> Option<Awaited> {
        let granted = self.state.machine.approved(result.call_id());
        let is_repeatable =
            granted.is_some_and(|it| matches!(it.repeat, Repeat::Read | Repeat::Idempotent));
        let SuspendedChild { conversation, error, .. } =
            self.calls.contexts.take_suspended(result, is_repeatable)?;
        let cut_off = error.is_some();
        if self.end.cut_off.is_none() {
            self.end.cut_off = error;
        }
        Some(Awaited::Agent { conversation, cut_off })
    }

    /// Whether a run that ends with this error leaves its calls open. True only if a call of another run has
    /// started this run and will start it again.
    pub(crate) fn must_leave_calls_open(&self, error: &Error) -> bool {
        let is_kept = self.state.options.as_ref().is_some_and(|options| options.is_kept);
        is_kept && is_transient(error, self.state.is_lost())
    }

    /// Reports facts about calls to the watchers as events, unless they were already reported.
    pub(crate) fn announce(&mut self) {
        for fact in mem::take(&mut self.state.unannounced) {
            let call = fact.call_id().and_then(|id| self.state.call(id));
            if let Some(call) = call {
                announce_fact(call, &fact, Duration::ZERO, |event| self.watch.tell(event));
            }
        }
    }
}
