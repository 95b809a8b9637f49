//! One answer of the model: requests the answer, passes on its events, and records it.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, stream};
use tokio::{
    task::{coop::poll_proceed, yield_now},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    call_contexts::CallContextParts,
    driver::{CallProgress, RequestProgress, RunDriver},
    options::RunTools,
    prefix::{
        may_refuse_additions, record_prefix_of_answer, record_refused_reasoning, update_prefix,
    },
    progress::ProgressEvent,
    provider_stream::ProviderStream,
    request_state::with_conversation,
    stop_signals::{RunSignal, StopSignals, warning_event},
    tool_calls::{AT_ONCE, begin},
    wake_flag::WakeFlag,
};
use crate::{
    Agent, Event,
    approval::ApprovalPolicy,
    compaction::{
        context_usage::room_for_answer,
        gauge::ReducedMaxTokens,
        window::{edit_context_after, leave_out_after, lower_max_tokens_after},
    },
    events::watcher::RunWatcher,
    output::tool_text::OutputToolText,
};
use harness_core::{
    context::copied_line,
    error::Error,
    journal::{CallSpent, Fact, InterruptCause},
    message::{ToolCall, Transcript},
    policy::RunGuard,
    provider::{
        Accumulator, CallPiece, ContextMeter, OutputMode, OutputSchema, ProviderResponse, Request,
        StreamEvent, cut_off,
    },
    tool::{SideEffect, Tool},
    trace::{SpanScope, Tracer},
};

/// The number of events that are read in a row before stop signals and tools are polled again.
const IN_A_ROW: u32 = 64;

/// A stream event or a signal of the run, while an answer arrives.
enum TurnSignal {
    Stream(Option<Result<StreamEvent, Error>>),
    Run(RunSignal),
    Progress(ProgressEvent),
}

/// How the stream of an answer ended.
enum StreamEnd {
    /// The stream has ended, perhaps before the answer is complete.
    Out,
    /// The run has to stop.
    Stop(InterruptCause),
    /// The request has failed.
    Failed(Error),
}

impl RunDriver<'_> {
    /// Requests one answer from the provider.
    pub(crate) async fn ask(&mut self) -> Result<(), Error> {
        self.calls.contexts.clear(self.state);
        let turn = self.state.machine.turns().saturating_add(1);
        self.state.tracer.turn(turn);
        self.request.context = self.state.estimate_request();
        if let Some(tools) = self.state.options.as_ref().and_then(|options| options.tools.as_ref())
        {
            self.request.context.tools = ContextMeter::new(None, tools.schemas()).tools();
        }
        self.state.spending.guard().begin_request();
        self.request.fell_back = false;
        self.emit(Event::TurnStarted { turn });
        let reduced_max_tokens = self.state.requests.reduced_max_tokens.take();
        let limit = reduced_max_tokens.map(|it| it.tokens);
        let mut ended = self.run_model_request(limit).await?;
        let mut adapts = self.adapts_to(&ended, reduced_max_tokens)?;
        if let StreamEnd::Failed(error) = &ended
            && !adapts
            && self.is_unanswered()
            && may_refuse_additions(self, error)
        {
            // Without an answer to this request, nothing is recorded.
            let refusal = self.state.agent.secrets().hide(&error.to_string()).into_owned();
            self.state.requests.refused_additions = Some(refusal);
            self.state.spending.guard().begin_request();
            ended = self.run_model_request(limit).await?;
            self.state.requests.refused_additions = None;
            adapts = self.adapts_to(&ended, reduced_max_tokens)?;
        }
        record_prefix_of_answer(self)?;
        record_refused_reasoning(self)?;
        match ended {
            _ if adapts => {
                self.request.answer = None;
                self.request.asked = false;
                Ok(())
            }
            StreamEnd::Out => self.record_answer(turn),
            StreamEnd::Stop(cause) => self.record_interrupt(cause),
            StreamEnd::Failed(error) => self.interrupt(Some(error)),
        }
    }

    /// Changes the next request if the server has refused this one for a reason that the library knows. Returns
    /// whether the model can be asked again.
    fn adapts_to(
        &mut self,
        ended: &StreamEnd,
        reduced: Option<ReducedMaxTokens>,
    ) -> Result<bool, Error> {
        let StreamEnd::Failed(error) = ended else { return Ok(false) };
        Ok(self.is_unanswered()
            && (lower_max_tokens_after(self, error, reduced)
                || edit_context_after(self, error)?
                || leave_out_after(self, error)?))
    }

    fn is_unanswered(&self) -> bool {
        self.request.answer.as_ref().is_none_or(Accumulator::is_untouched)
    }

    /// Sends the request and reads the stream to its end. Calls that may start early are started meanwhile. The
    /// connection is closed when this method returns. `reduced_max_tokens` is a lowered limit on the answer, if
    /// there is one.
    async fn run_model_request(
        &mut self,
        reduced_max_tokens: Option<u32>,
    ) -> Result<StreamEnd, Error> {
        let offered_tools = self.state.offered_tools();
        let prefix = update_prefix(self)?;
        let room = room_for_answer(self.state);
        let Self {
            state,
            watch,
            stop_signals,
            over,
            request:
                RequestProgress {
                    answer,
                    asked,
                    answer_way,
                    ledger,
                    fell_back,
                    reasoning_refused,
                    prefix_change,
                    ..
                },
            calls,
            ..
        } = self;
        let agent = state.agent.clone();
        let name = state.durable.as_ref().map(|durable| Arc::clone(durable.id()));
        let name = name.as_deref().unwrap_or(state.machine.id());
        let options = state.options.as_deref();
        let (offered, read) = (state.offered(), state.approvals.taint.sources());
        let tools = offered.tools();
        let in_journal = state.is_in_journal();
        let policy = ApprovalPolicy {
            agent: &agent,
            options,
            grants: &state.approvals.grants,
            read,
            conversation: name,
            in_journal,
        };
        let program = stop_signals.program();
        let machine = prefix_change.as_ref().map_or(&state.machine, |change| &change.machine);
        let mut wanted = state.machine.wanted_schema(tools);
        if prefix.as_ref().is_some_and(|prefix| prefix.answer_tool.is_some()) {
            wanted = wanted.map(OutputSchema::only_by_tool);
        }
        let request = with_conversation(
            Request::new(machine.sent())?.with_system(agent.system()),
            machine,
            (tools, offered_tools.as_deref()),
            prefix.as_deref(),
        )
        .with_vendors(machine.vendors_view())
        .with_settings(options.and_then(|options| options.settings.as_ref()))
        .with_room(room, state.requests.is_strict)
        .with_lowered_tokens(reduced_max_tokens)
        .with_answer(wanted.as_ref())
        .with_ledger(Some(ledger))
        .with_sent(Some(&state.requests.sent))
        .with_stop(&program);
        *asked = true;
        let answering = ProviderStream::of(agent.provider(), request);
        let scope = state.tracer.chat_scope();
        let mut response = ResponseStream {
            agent: &agent,
            offered: &offered,
            policy,
            transcript: state.machine.transcript(),
            listened: state.tracer.is_listening(),
            tracer: &mut state.tracer,
            guard: state.spending.guard(),
            answer: answer.insert(Accumulator::avoiding(Arc::clone(state.machine.call_ids()))),
            began: false,
            watch,
            calls,
            over,
            has_shortened: state.machine.has_shortened(),
            fell_back,
            reasoning_refused,
        };
        let mut source =
            ResponseSource { answering, scope, program: &program, wanted: wanted.as_ref() };
        Ok(response.read(&mut source, stop_signals, answer_way).await)
    }

    /// Records a complete answer. Interrupts the run if the answer is incomplete.
    fn record_answer(&mut self, turn: u32) -> Result<(), Error> {
        let Some(answer) = self.request.answer.take_if(|answer| answer.is_complete()) else {
            return self.interrupt(Some(cut_off()));
        };
        self.state.requests.files_before.clear();
        let several = answer.requested_model().map(str::to_owned);
        let ProviderResponse { message, stop, usage, id, model, provider } = answer.finish()?;
        self.request.context = self.request.context.measured(&usage);
        self.state.tracer.answer(self.request.context, id, self.request.answer_way);
        let (asked, asked_model) = self.state.agent.provider_and_model();
        let asked_model = several.unwrap_or_else(|| asked_model.to_owned());
        // The name of the model comes from the server, so secrets in it are hidden, too.
        let hide = |name: &str| self.state.agent.secrets().hide(name).into_owned();
        let model = hide(model.as_deref().unwrap_or(&asked_model));
        let asked_model = Some(hide(&asked_model)).filter(|name| *name != model);
        let fact = Fact::ModelReplied {
            message,
            stop,
            usage,
            provider: provider.unwrap_or_else(|| asked.to_owned()),
            model,
            asked_model,
        };
        let recorded = self.state.record(&fact);
        self.request.asked = false;
        recorded.and(self.count_early())?;
        self.emit(Event::TurnEnded { turn, stop, usage: &usage });
        Ok(())
    }
}

/// The stream of an answer, with the context of its request.
struct ResponseSource<'h> {
    answering: ProviderStream<'h>,
    scope: SpanScope,
    /// Cancelled when the program stops the run.
    program: &'h CancellationToken,
    /// The schema of the answer, if the program set one.
    wanted: Option<&'h OutputSchema>,
}

/// An answer while it arrives: the receivers of its events, and the calls that start meanwhile.
struct ResponseStream<'h, 'w> {
    agent: &'h Agent,
    offered: &'h RunTools,
    policy: ApprovalPolicy<'h>,
    transcript: &'h Transcript,
    tracer: &'h mut Tracer,
    /// Whether a subscriber wants to trace each piece of the answer.
    listened: bool,
    guard: &'h mut RunGuard,
    answer: &'h mut Accumulator,
    /// Whether the first piece of the answer has arrived.
    began: bool,
    watch: &'h mut RunWatcher<'w>,
    calls: &'h mut CallProgress,
    over: &'h DropGuard,
    /// Whether placeholder lines have replaced cleared arguments. The model may copy such a line into a call.
    has_shortened: bool,
    fell_back: &'h mut bool,
    reasoning_refused: &'h mut Option<String>,
}

impl ResponseStream<'_, '_> {
    /// Reads the stream to its end, and starts the calls that may start early.
    async fn read(
        &mut self,
        source: &mut ResponseSource<'_>,
        stop_signals: &mut StopSignals,
        answer_way: &mut Option<OutputMode>,
    ) -> StreamEnd {
        let ResponseSource { answering, scope, program, wanted } = source;
        let mut output_text = OutputToolText::new(*wanted);
        // One future is used for the whole answer: a new future for each event would cost more than all other
        // work on the event.
        let halted = stream::unfold(stop_signals, async |stop_signals| {
            Some((stop_signals.next_signal().await, stop_signals))
        });
        let mut halted = pin!(halted);
        let mut wake_flag = WakeFlag::new();
        let mut in_a_row = 0;
        loop {
            let others_first = in_a_row == 0 || (wake_flag.is_set() && program.is_cancelled());
            let next = poll_fn(|context| {
                // Applies tokio's cooperative budget, because a stream that never pauses would starve other
                // tasks. Tools are polled without the budget, because a tool that never pauses would exhaust the
                // budget.
                if others_first {
                    ready!(poll_proceed(context)).made_progress();
                // Reads an arrived event without polling the other futures, because polling them costs more than
                // reading the event.
                } else if let Poll::Ready(said) = scope.within(|| answering.poll_next(context)) {
                    return Poll::Ready(TurnSignal::Stream(said));
                }
                // The other futures are polled only after one of them has set the flag.
                if wake_flag.take(context)
                    && let Some(signal) = self.poll_others(halted.as_mut(), &mut wake_flag)
                {
                    return Poll::Ready(signal);
                }
                if others_first {
                    return scope.within(|| answering.poll_next(context)).map(TurnSignal::Stream);
                }
                Poll::Pending
            });
            let event = match next.await {
                TurnSignal::Stream(Some(Ok(event))) => match output_text.read(event) {
                    Some(event) => event,
                    None => continue,
                },
                TurnSignal::Stream(Some(Err(error))) => return StreamEnd::Failed(error),
                TurnSignal::Stream(None) => return StreamEnd::Out,
                TurnSignal::Run(RunSignal::Stop(cause)) => return StreamEnd::Stop(cause),
                TurnSignal::Run(RunSignal::Warn(warning)) => {
                    self.tracer.warning(&warning);
                    self.watch.tell(warning_event(&warning));
                    continue;
                }
                TurnSignal::Progress(event) => {
                    self.report_progress(event);
                    continue;
                }
            };
            in_a_row = (in_a_row + 1) % IN_A_ROW;
            if in_a_row == 0 && self.watch.is_paced() {
                yield_now().await;
            }
            *answer_way = wanted.and_then(OutputSchema::way);
            match self.process(&event) {
                Ok(None) => {}
                Ok(Some(call)) => {
                    if self.start_early(call) {
                        // The call starts when it is polled in the next round.
                        wake_flag.set();
                        in_a_row = 0;
                    }
                }
                Err(error) => return StreamEnd::Failed(error),
            }
        }
    }

    /// Returns a stop signal or a progress event, if there is one. If not, polls the calls that have started
    /// early.
    fn poll_others(
        &mut self,
        halted: Pin<&mut impl Stream<Item = RunSignal>>,
        wake_flag: &mut WakeFlag,
    ) -> Option<TurnSignal> {
        let said = {
            let others = &mut Context::from_waker(wake_flag.waker());
            let said = match halted.poll_next(others) {
                Poll::Ready(signal) => signal.map(TurnSignal::Run),
                Poll::Pending => None,
            };
            let said = said.or_else(|| match self.calls.reports.poll(others) {
                Poll::Ready(report) => Some(TurnSignal::Progress(report)),
                Poll::Pending => None,
            });
            if said.is_none() {
                self.calls.early.poll(others);
            }
            said
        };
        if said.is_some() {
            // There may be more signals, and the calls were not polled.
            wake_flag.set();
        }
        said
    }

    fn report_progress(&mut self, event: ProgressEvent) {
        match event {
            ProgressEvent::Agent(event) => event.show(|event| self.watch.tell(event)),
            ProgressEvent::Progress(call, message) => {
                self.tracer.progress(&call, &message);
                self.watch.tell(Event::ToolProgress { call: &call, message: &message });
            }
        }
    }

    /// Adds an event to the answer and passes it on. Returns the call that this event completes.
    fn process(&mut self, event: &StreamEvent) -> Result<Option<ToolCall>, Error> {
        let is_word = !matches!(
            event,
            StreamEvent::Retrying { .. }
                | StreamEvent::FallingBack { .. }
                | StreamEvent::ParameterDropped { .. }
                | StreamEvent::ReasoningRefused { .. }
                | StreamEvent::AnsweredBy { .. }
                | StreamEvent::UsageSoFar(_)
        );
        if is_word {
            if self.listened {
                self.tracer.chunk();
            }
            if !self.began {
                self.began = true;
                self.tracer.answer_began();
            }
        }
        self.answer.push(event)?;
        let written = self.emit(event);
        match self.watch.fault() {
            Some(error) => Err(error),
            None => Ok(written),
        }
    }

    /// Passes an event to the watchers and the trace. Returns the call that this event completes.
    fn emit(&mut self, event: &StreamEvent) -> Option<ToolCall> {
        match event {
            StreamEvent::TextDelta { text, .. } => self.watch.tell(Event::Text(text)),
            StreamEvent::Citation { citation, .. } => self.watch.tell(Event::Citation(citation)),
            StreamEvent::Image { image, .. } => self.watch.tell(Event::Image(image)),
            StreamEvent::Audio { audio, .. } => self.watch.tell(Event::Audio(audio)),
            StreamEvent::ReasoningDelta { text, .. } => self.watch.tell(Event::Reasoning(text)),
            StreamEvent::ToolCallStart { block, .. }
            | StreamEvent::ToolCallArguments { block, .. } => self.show_piece(*block),
            StreamEvent::ToolCallDelta { block, json } => {
                self.show_piece(*block);
                if json.trim_end().ends_with('}') && self.answer.has_changed_a_call() {
                    return self.answer.written_call(*block);
                }
            }
            StreamEvent::ToolCallEnd { block } => return self.answer.written_call(*block),
            StreamEvent::Retrying { attempt, of, wait, refused: _, cause } => {
                let cause = &*self.agent.secrets().hide(cause);
                let (attempt, of, wait) = (*attempt, *of, *wait);
                self.tracer.retry(attempt, of, wait, cause);
                self.watch.tell(Event::Retrying { attempt, of, wait, cause });
            }
            StreamEvent::FallingBack { from, to, cause } => {
                *self.fell_back = true;
                let cause = &*self.agent.secrets().hide(cause);
                self.tracer.fall_back(from, to, cause);
                self.watch.tell(Event::FallingBack { from, to, cause });
            }
            StreamEvent::ParameterDropped { parameter, cause } => {
                let cause = &*self.agent.secrets().hide(cause);
                self.tracer.parameter_dropped(parameter, cause);
                self.watch.tell(Event::ParameterDropped { parameter, cause });
            }
            StreamEvent::ReasoningRefused { cause } => {
                *self.reasoning_refused = Some(self.agent.secrets().hide(cause).into_owned());
            }
            StreamEvent::Discarded { cause } => self.discard_early_calls(cause),
            // The other events are only for the accumulator.
            _ => {}
        }
        None
    }

    /// Reports the piece that the last event has added to the call of this block.
    fn show_piece(&mut self, block: u32) {
        // The piece is looked up only if the events have a receiver.
        if !self.watch.has_listener() {
            return;
        }
        let Some(CallPiece { call, tool, begins, json }) = self.answer.call_piece(block) else {
            return;
        };
        if begins {
            self.watch.tell(Event::ToolCallStart { call, tool });
        }
        if !json.is_empty() {
            self.watch.tell(Event::ToolCallDelta { call, json });
        }
    }

    /// Drops the calls that have started early, because the answer starts again.
    fn discard_early_calls(&mut self, cause: &str) {
        let cause = &*self.agent.secrets().hide(cause);
        self.calls.reports.clear();
        for call in self.calls.early.count(|_| None).1 {
            self.tracer.dropped(&call);
            self.guard.dropped();
            self.calls.hide(&call);
            self.watch.tell(Event::ToolDropped { call: &call });
        }
        self.tracer.discarded(cause);
        self.watch.tell(Event::Discarded { cause });
    }

    /// Starts a call before the answer is complete, if that is allowed. Returns whether the call was started.
    fn start_early(&mut self, call: ToolCall) -> bool {
        let Self { agent, policy, calls, .. } = self;
        let early = &mut calls.early;
        if !agent.can_start_early() || early.len() >= AT_ONCE || early.has(call.id()) {
            return false;
        }
        let Some(decision) = policy.evaluate_early(&call) else { return false };
        let may_start = |it: &ToolCall| it.id() == call.id() || policy.evaluate_early(it).is_some();
        // A read after a write must not run before the write. So a call starts early only if all earlier
        // calls may start early.
        let Some(calls) = self.answer.count_up_to(&call, may_start) else { return false };
        let tools = self.offered.tools();
        // A call with a copy of the placeholder line of a cleared argument does not run.
        if self.has_shortened && call.decoded().is_ok_and(|it| copied_line(&it).is_some()) {
            return false;
        }
        // The sources that the vendor's tools have read for this answer are recorded only with the answer. Until
        // then, no call that uses the network starts.
        let is_outward = |tool: &Tool| tool.side_effects().has(SideEffect::Network);
        if self.answer.has_sources() && tools.get(call.name()).is_some_and(is_outward) {
            return false;
        }
        // A tool that takes the transcript must not run before the answer is part of the transcript.
        let reads_it = tools.get(call.name()).is_some_and(Tool::needs::<Transcript>);
        let is_ready = tools.accepts(&call) && !tools.may_be_filled(&call) && !reads_it;
        if !is_ready {
            return false;
        }
        // If the tool's concurrency limit is reached, the call does not start early.
        let place = match self.calls.contexts.places_of(tools.get(call.name())) {
            None => None,
            Some(places) => match places.try_acquire() {
                None => return false,
                place => place,
            },
        };
        if !self.guard.can_start_early(calls) {
            return false;
        }
        let scope = self.tracer.call(&call, true);
        self.watch.tell(Event::ToolCall(&call));
        self.calls.shown.push((call.clone(), Instant::now()));
        let of_call = CallContextParts {
            transcript: self.transcript,
            granted: None,
            rules: policy.rules(),
            counted: CallSpent::default(),
            is_unwritten: true,
            stop: self.over.token(),
        };
        let context = self.calls.contexts.make(&call, tools.get(call.name()), of_call);
        self.calls.early.push(begin(self.offered, &call, context, place, scope), call, decision);
        true
    }
}
