//! Records the trace of one conversation's runs. The agent's loop calls the tracer for each event.

use std::{
    collections::HashMap,
    fmt, mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    CallOfRun, Happened, Redactor, RunListener, RunTrace, SCHEMA, SpanScope, Trace, TraceEvent,
    TracedCall,
    journal_events::{CallWaitTime, PendingOperation, wait_duration},
};
use crate::{
    journal::{Decision, Fact, InterruptCause},
    message::{Block, Message, ToolCall, ToolResult},
    policy::LimitWarning,
    provider::{ContextTokens, OutputMode},
    tool::cut,
    unwind::{caught, dropped},
};

/// The data for the first event of a run.
#[doc(hidden)]
#[derive(Debug)]
pub struct RunParticipants<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    pub tools: Vec<String>,
    /// The id of the conversation's first message.
    pub conversation: Option<&'a str>,
    /// The name of the conversation in its journal.
    pub journaled: Option<&'a str>,
    /// The number of messages before the run.
    pub earlier: usize,
    /// The call that started this run: the id of the run that contains the call, and the id of the call.
    pub caller: Option<(&'a str, &'a str)>,
}

/// Records the trace of a run.
#[doc(hidden)]
pub struct Tracer {
    trace: Arc<Trace>,
    /// The id of the current run. Between runs, the id of the next run; empty until the first event after a run.
    run: String,
    events: Vec<TraceEvent>,
    /// Whether a run is in progress.
    runs: bool,
    /// Whether the library has asked the program's trace for the `listener` of this run.
    awake: bool,
    /// The listener for this run. `None` without a listener in the trace's settings, and after a panic of the listener.
    listener: Option<Box<dyn RunListener>>,
    /// What the next events of the run need. `None` after a run, so that a waiting conversation does not keep it.
    pub(super) now: Option<Box<TracedRun>>,
    /// The event `Reopened`, until the next run begins: the listener adds this event to the run's span.
    pub(super) reopened: Option<Box<Happened>>,
}

/// What the events of a run need from earlier events of the run.
pub(super) struct TracedRun {
    secrets: Redactor,
    turn: u32,
    context: ContextTokens,
    response: Option<String>,
    answer_way: Option<OutputMode>,
    /// The durations of calls whose results are not traced yet, by call id.
    ran: HashMap<String, Duration>,
    /// The names of the tools, by call id.
    pub(super) tools: HashMap<String, String>,
    /// The pending journal operation.
    pub(super) operation: Option<PendingOperation>,
}

impl TracedRun {
    fn new(secrets: Redactor) -> Self {
        Self {
            secrets,
            turn: 0,
            context: ContextTokens::default(),
            response: None,
            answer_way: None,
            ran: HashMap::new(),
            tools: HashMap::new(),
            operation: None,
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").finish_non_exhaustive()
    }
}

impl Tracer {
    pub fn new(trace: &Arc<Trace>) -> Self {
        Self {
            trace: Arc::clone(trace),
            run: String::new(),
            events: Vec::new(),
            runs: false,
            awake: false,
            listener: None,
            now: None,
            reopened: None,
        }
    }

    pub(super) fn now(&mut self) -> &mut TracedRun {
        let Self { now, trace, .. } = self;
        now.get_or_insert_with(|| Box::new(TracedRun::new(trace.redactor())))
    }

    /// The text for the trace, without secrets: see [`Redactor::hide`].
    pub(super) fn hide(&mut self, text: &str, tool: Option<&str>) -> String {
        self.now().secrets.hide(text, tool)
    }

    /// The text of this call for the trace, without secrets.
    pub(super) fn hide_of_call(&mut self, text: &str, call: &str) -> String {
        let TracedRun { secrets, tools, .. } = self.now();
        secrets.hide(text, tools.get(call).map(String::as_str))
    }

    /// A tracer for facts that were recorded earlier. It informs no listener and writes nowhere.
    pub fn of_past(trace: &Trace) -> Self {
        Self::new(&Arc::new(trace.kept_only()))
    }

    /// Sets the id of the run for all following events. A driver that executes the actions of one run separately sets
    /// the same id for each action.
    pub fn within(&mut self, run: &str) {
        run.clone_into(&mut self.run);
    }

    /// The name or id, with all registered secrets hidden.
    pub fn name(&self, name: &str) -> String {
        self.trace.known.hide(name).into_owned()
    }

    /// The id of the current run.
    pub fn run_name(&self) -> &str {
        &self.run
    }

    /// Takes the events of the run out of the tracer, so that a waiting conversation does not keep the texts in memory
    /// twice.
    pub fn run(&mut self) -> RunTrace {
        RunTrace(Arc::new(mem::take(&mut self.events)))
    }

    /// Begins a run. The run's trace also contains the events since the last run.
    pub fn begin(&mut self, cast: RunParticipants<'_>, said: Option<&Message>) {
        self.stopped();
        (self.awake, self.runs) = (false, true);
        let follows = !self.run.is_empty();
        if !self.is_read() {
            return;
        }
        if !follows {
            self.now = None;
        }
        let TracedRun { tools, ran, .. } = self.now();
        tools.clear();
        ran.clear();
        let RunParticipants { provider, model, tools, conversation, journaled, earlier, caller } =
            cast;
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let said = said.map(|said| self.hide(&with_files(said), None));
        self.write(Happened::RunStarted {
            unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            provider: self.name(provider),
            model: self.name(model),
            tools: tools.iter().map(|tool| self.name(tool)).collect(),
            conversation: conversation.map(|id| self.name(id)),
            journaled: journaled.map(|name| self.name(name)),
            earlier,
            said,
            caller: caller.map(|(run, call)| CallOfRun::new(run, self.name(call))),
        });
        self.tell_reopened();
    }

    fn tell_reopened(&mut self) {
        if let Some(reopened) = self.reopened.take() {
            self.tell(|listener| listener.happened(&reopened));
        }
    }

    /// Registers open calls, so that later events can name their tools and hide the secrets of their arguments.
    pub fn add_open_calls<'a>(&mut self, open: impl IntoIterator<Item = &'a ToolCall>) {
        if !self.is_read() {
            return;
        }
        for call in open {
            self.traced(call);
        }
    }

    /// Traces that a request is about to be sent to the model.
    pub fn turn(&mut self, turn: u32) {
        self.now().turn = turn;
        self.write(Happened::TurnStarted { turn });
    }

    /// Traces that the first event of the model's answer arrived.
    pub fn answer_began(&mut self) {
        let turn = self.now().turn;
        self.write(Happened::AnswerBegan { turn });
    }

    /// Whether a listener receives the chunks of an answer.
    pub fn is_listening(&self) -> bool {
        let is_listening = |listener: &dyn RunListener| caught(|| listener.is_listening());
        self.listener.as_deref().is_some_and(|listener| is_listening(listener).unwrap_or(false))
    }

    /// Informs the listener that a chunk of the answer arrived.
    #[inline]
    pub fn chunk(&mut self) {
        self.tell(|listener| listener.chunk());
    }

    /// Sets data for the event of the next complete answer: the tokens of the request, the vendor's id of the response,
    /// and how the schema was sent.
    pub fn answer(
        &mut self,
        context: ContextTokens,
        response: Option<String>,
        way: Option<OutputMode>,
    ) {
        let now = self.now();
        (now.context, now.response, now.answer_way) = (context, response, way);
    }

    /// Returns the scope in which the agent's loop receives the answer.
    pub fn chat_scope(&mut self) -> SpanScope {
        let scope = self.tell(|listener| listener.answer_scope()).flatten();
        SpanScope { scope, words: None }
    }

    /// Traces that a call has to wait before it can start.
    pub fn queued(&mut self, call: &ToolCall) {
        if self.is_read() {
            let TracedCall { call, tool, .. } = self.traced(call);
            self.write(Happened::CallQueued { call, tool });
        }
    }

    /// Traces the start of a call. Returns the scope in which the call has to run.
    pub fn call(&mut self, call: &ToolCall, early: bool) -> SpanScope {
        let id = call.id();
        if self.is_read() {
            let TracedCall { call, tool, arguments } = self.traced(call);
            self.write(Happened::CallStarted { call, tool, arguments, early });
        }
        let id = self.name(id);
        let Some(scope) = self.tell(|listener| listener.call_scope(&id)).flatten() else {
            return SpanScope::default();
        };
        let words = self.trace.has_content_in_spans();
        let words = words.then(|| Box::new((self.now().secrets.clone(), self.name(call.name()))));
        SpanScope { scope: Some(scope), words }
    }

    /// Traces that a call that started early is missing in the complete answer.
    pub fn dropped(&mut self, call: &ToolCall) {
        self.write(Happened::CallDropped { call: self.name(call.id()) });
    }

    /// Traces that a tool reported progress.
    pub fn progress(&mut self, call: &str, message: &str) {
        if !self.is_read() {
            return;
        }
        let message = self.hide_of_call(message, call);
        self.write(Happened::CallProgressed { call: self.name(call), message });
    }

    /// Stores the duration of a call for the event of the call's result.
    pub fn ran(&mut self, call: &ToolCall, elapsed: Duration) {
        self.now().ran.insert(call.id().to_owned(), elapsed);
    }

    /// Traces a retry of a request.
    pub fn retry(&mut self, attempt: u32, of: u32, wait: Duration, cause: &str) {
        let (wait_us, cause) = (micros(wait), self.hide(cause, None));
        self.write(Happened::Retried { attempt, of, wait_us, cause });
    }

    /// Traces that a fallback provider gets the request.
    pub fn fall_back(&mut self, from: &str, to: &str, cause: &str) {
        let (from, to) = (self.name(from), self.name(to));
        let cause = self.hide(cause, None);
        self.write(Happened::FellBack { from, to, cause });
    }

    /// Traces that the server refused a member of the request.
    pub fn parameter_dropped(&mut self, parameter: &str, cause: &str) {
        let (parameter, cause) = (self.name(parameter), self.hide(cause, None));
        self.write(Happened::ParameterDropped { parameter, cause });
    }

    /// Traces that the answer broke off.
    pub fn discarded(&mut self, cause: &str) {
        let cause = self.hide(cause, None);
        self.write(Happened::Discarded { cause });
    }

    /// Traces that a limit is nearly reached, or that a limit cannot be enforced.
    pub fn warning(&mut self, warning: &LimitWarning) {
        let (LimitWarning::Near(reached) | LimitWarning::Unknown(reached)) = warning;
        let (limit, detail) = (reached.limit, self.hide(&reached.detail, None));
        self.write(match warning {
            LimitWarning::Near(_) => Happened::LimitNear { limit, detail },
            LimitWarning::Unknown(_) => Happened::LimitUnknown { limit, detail },
        });
    }

    /// Traces a fact. If the fact begins or ends the wait of a call, `waited` describes the wait.
    pub fn fact(&mut self, fact: &Fact, waited: Option<CallWaitTime>) {
        if !self.is_read() {
            return;
        }
        let what = match fact {
            Fact::ModelReplied { message, stop, usage, provider, model, .. } => {
                let (text, reasoning, calls) = self.message_parts(message.as_ref());
                let TracedRun { turn, context, response, answer_way, .. } = self.now();
                let (turn, context) = (*turn, *context);
                let (response, answer_way) = (response.take(), answer_way.take());
                Happened::ModelReplied {
                    turn,
                    text,
                    reasoning,
                    calls,
                    stop: *stop,
                    usage: *usage,
                    context,
                    provider: self.name(provider),
                    model: self.name(model),
                    response: response.map(|id| self.name(&id)),
                    answer_way,
                }
            }
            Fact::Interrupted { message, usage, cause, .. } => {
                let (text, _, calls) = self.message_parts(message.as_ref());
                let cause = match cause.clone() {
                    InterruptCause::Limit { limit, scope, detail } => {
                        let detail = self.hide(&detail, None);
                        InterruptCause::Limit { limit, scope, detail }
                    }
                    InterruptCause::Failure { error, public_text: _ } => {
                        let error = self.hide(&error, None);
                        InterruptCause::Failure { error, public_text: None }
                    }
                    InterruptCause::Denial { call } => {
                        InterruptCause::Denial { call: self.name(&call) }
                    }
                    InterruptCause::Program => InterruptCause::Program,
                };
                Happened::Interrupted { cause, text, calls, usage: *usage }
            }
            Fact::CallDecided { call, decision } => {
                let (side_effects, denied, by) = match decision {
                    Decision::Allow { side_effects, by, .. } => (Some(*side_effects), None, by),
                    Decision::Deny { reason, by } => (None, Some(self.hide(reason, None)), by),
                };
                let by = self.decider(by, call);
                let (waited_ms, elsewhere) = wait_duration(waited);
                let call = self.name(call);
                Happened::CallDecided { call, side_effects, denied, by, waited_ms, elsewhere }
            }
            Fact::CallFinished { result, .. } => self.finished(result),
            Fact::CallWaits { call, wait } => self.call_waits(call, wait, waited),
            Fact::CallAnswered { call, answer, who, at } => {
                self.answered(call, answer, who.as_deref(), *at, waited)
            }
            Fact::CallSettled { result, who, at, spent: _ } => {
                self.settled(result, who.as_deref(), *at, waited)
            }
            Fact::CallCleared { call, .. } => {
                let (call, tool) = self.call_and_tool(call);
                Happened::CallCleared { call, tool }
            }
            Fact::CallUndecided { call } => {
                let (call, tool) = self.call_and_tool(call);
                Happened::CallUndecided { call, tool }
            }
            Fact::GrantRevoked { call, scope } => Happened::GrantRevoked {
                call: self.name(call),
                scope: self.hide(scope.shown(), None),
            },
            Fact::Steered { message } => {
                Happened::Steered { text: shortened(self.hide(&message.text(), None)) }
            }
            Fact::AnswerAccepted {} => Happened::AnswerAccepted {},
            Fact::AnswerRejected { by, faults, message } => {
                let faults = faults.iter().map(|fault| shortened(self.hide(fault, None)));
                let (faults, again) = (faults.collect(), message.is_some());
                Happened::AnswerRejected { by: *by, faults, again }
            }
            Fact::ToolsFound { call, tools } => Happened::ToolsFound {
                call: self.name(call),
                tools: tools.iter().map(|tool| self.name(tool)).collect(),
            },
            Fact::ContextCleared { results, arguments, before, after } => {
                let (results, arguments) = (results.len(), arguments.len());
                Happened::ContextCleared { results, arguments, before: *before, after: *after }
            }
            Fact::ContextCompacted {
                messages, summary, vendor, request, before, after, ..
            } => Happened::ContextCompacted {
                messages: *messages,
                text: shortened(self.hide(&summary.text(), None)),
                vendor: vendor.is_some(),
                before: *before,
                after: *after,
                usage: request.usage,
                model: self.name(&request.model),
            },
            Fact::CompactionFailed { request, cause, .. } => Happened::CompactionFailed {
                cause: shortened(self.hide(cause, None)),
                usage: request.usage,
            },
            Fact::VendorSummaryRefused { cause } => {
                Happened::VendorSummaryRefused { cause: shortened(self.hide(cause, None)) }
            }
            Fact::ContextOverflowed { window, tokens, .. } => {
                Happened::ContextOverflowed { window: *window, tokens: *tokens }
            }
            Fact::ContextPinned { text } => {
                Happened::ContextPinned { text: shortened(self.hide(text, None)) }
            }
            Fact::PrefixUnused {} => return,
            // The first prefix of a conversation is not a change.
            Fact::PrefixSet { left_out: 0, change, refusal: None, .. } if change.is_empty() => {
                return;
            }
            Fact::PrefixSet { appended, left_out, change, refusal, .. } => {
                let mut hide = |words: &String| shortened(self.hide(words, None));
                let (change, refusal) = (hide(change), refusal.as_ref().map(&mut hide));
                Happened::PrefixChanged {
                    change,
                    appended: *appended,
                    left_out: *left_out,
                    refusal,
                }
            }
            Fact::CallEnded { tool, result } => Happened::CallEnded {
                call: self.name(result.call_id()),
                outcome: result.outcome(),
                text: shortened(self.hide(&result.as_text(), Some(tool))),
            },
            // `begin` writes the event `run_started` for these facts.
            Fact::Given { .. } | Fact::UserSaid { .. } | Fact::Resumed { .. } => return,
            // The event of each answer records how the schema was sent to the model.
            Fact::AnswerWanted { .. } => return,
            // The methods `reopened` and `forked` write these events.
            Fact::Reopened { .. } | Fact::Forked { .. } => return,
            // `begin` records the call that started the run.
            Fact::CalledBy { .. } => return,
            // The trace already contains the results and messages that come from these sources.
            Fact::SourcesRead { .. } => return,
            // The method `call` traces the call when it actually starts, which may be before the fact.
            Fact::CallStarted { .. } => return,
            // An agent traces its own run. A request for a summary is traced at its end.
            Fact::UnkeptAgentStarted { .. } | Fact::CompactionStarted { .. } => return,
        };
        self.write(what);
    }

    /// Ends the run with this event.
    pub fn end(&mut self, ended: Happened) {
        self.stopped();
        self.write(ended);
        self.run.clear();
        (self.runs, self.now) = (false, None);
    }

    fn finished(&mut self, result: &ToolResult) -> Happened {
        let (text, files) = self.content(result);
        Happened::CallFinished {
            call: self.name(result.call_id()),
            outcome: result.outcome(),
            text,
            files,
            ran_us: self.now().ran.remove(result.call_id()).map(micros),
        }
    }

    /// The text of a result for the model, and a line for each of its files.
    pub(super) fn content(&mut self, result: &ToolResult) -> (String, Vec<String>) {
        let call = result.call_id();
        let text = shortened(self.hide_of_call(&result.as_text(), call));
        let files = result.content().iter().filter_map(|part| {
            let (kind, media) = part.media().filter(|(_, media)| media.text().is_none())?;
            Some(self.hide_of_call(&media.summary_line(kind), call))
        });
        (text, files.collect())
    }

    fn message_parts(&mut self, message: Option<&Message>) -> (String, String, Vec<TracedCall>) {
        let Some(message) = message else { return Default::default() };
        let reasoning: Vec<&str> = message
            .blocks()
            .iter()
            .filter_map(|block| match block {
                Block::Reasoning(reasoning) => Some(reasoning.text()),
                _ => None,
            })
            .collect();
        let calls: Vec<TracedCall> = message.calls().map(|call| self.traced(call)).collect();
        let text = self.hide(&message.text(), None);
        (text, self.hide(&reasoning.join("\n"), None), calls)
    }

    fn traced(&mut self, call: &ToolCall) -> TracedCall {
        self.now().tools.insert(call.id().to_owned(), call.name().to_owned());
        TracedCall {
            call: self.name(call.id()),
            tool: self.name(call.name()),
            arguments: self.hide(call.arguments(), Some(call.name())),
        }
    }

    /// Whether the trace is on, or a listener needs events. If so, creates the id of the current or next run if it is
    /// missing.
    pub(super) fn is_read(&mut self) -> bool {
        if !self.awake {
            self.awake = true;
            self.listener = caught(|| self.trace.listen()).unwrap_or_default();
        }
        let is_read = self.trace.on || self.is_listening();
        if is_read && self.run.is_empty() {
            (self.run, self.events) = (new_run(), Vec::new());
        }
        is_read
    }

    /// Calls a method of the listener. After a panic, the listener receives no further events of this run.
    #[inline]
    pub(super) fn tell<T>(&mut self, tell: impl FnOnce(&mut dyn RunListener) -> T) -> Option<T> {
        let listener = self.listener.as_deref_mut()?;
        let told = caught(|| tell(listener)).ok();
        if told.is_none() {
            dropped(self.listener.take());
        }
        told
    }

    pub(super) fn write(&mut self, what: Happened) {
        self.tell(|listener| listener.happened(&what));
        self.keep(what);
    }

    /// Adds an event to the trace without passing the event to the listener.
    pub(super) fn keep(&mut self, what: Happened) {
        if !self.trace.on {
            return;
        }
        let event = TraceEvent {
            v: SCHEMA,
            run: self.run.clone(),
            at_us: micros(self.trace.began.elapsed()),
            what,
        };
        self.trace.write(&event);
        if self.runs || self.events.len() < BEFORE {
            if self.events.is_empty() {
                // Until its first answer, a run has three events.
                self.events.reserve_exact(3);
            }
            self.events.push(event);
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stopped();
        self.tell_reopened();
    }
}

/// A unique id for a run.
#[doc(hidden)]
pub fn new_run() -> String {
    format!("run_{:016x}", fastrand::u64(..))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The maximum number of events between two runs that are kept in memory. Without a limit, a program that retries
/// `save` for days would fill the memory.
const BEFORE: usize = 256;

/// The maximum size of one result in a trace, in bytes. Only a program that raises the limit for results has larger
/// results. The conversation keeps the full result.
const RESULT: usize = 128 * 1024;

/// The text of a message, and a line for each of its files.
fn with_files(message: &Message) -> String {
    let files = message.blocks().iter().filter_map(|block| {
        block.media().map(|(kind, media)| format!("[{}]", media.summary_line(kind)))
    });
    let text = Some(message.text()).filter(|text| !text.is_empty());
    text.into_iter().chain(files).collect::<Vec<_>>().join("\n")
}

/// Cuts the middle out of a text above the maximum size. The text must not contain secrets.
fn shortened(text: String) -> String {
    if text.len() > RESULT { cut(&text, RESULT, "") } else { text }
}
