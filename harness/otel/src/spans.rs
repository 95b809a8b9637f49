//! Reports to `tracing` and OpenTelemetry by the conventions for generative AI: spans `invoke_agent`,
//! `chat {model}` and `execute_tool {tool}`, and histograms of the client.
//!
//! The names are defined here and in `journal`. Names that are not in the conventions begin with `harness.`. Only
//! `chat` spans have the usage, so that a sum over all spans counts each token once.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue, Value, global,
    metrics::{Histogram, Meter, MeterProvider},
};
use tracing::{Level, Span, event, field::Empty, info_span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{
    journal::{JournalMeters, OperationSpan, seconds},
    names::{self, KnownTools},
};
use harness_core::{
    journal::{InterruptCause, LimitScope},
    message::CallOutcome,
    provider::{StopReason, Usage},
    trace::{EndedCall, Happened, RunListener, Trace, TraceListener, TraceScope, TracedCall},
};

/// Reports each run as spans of `tracing` and metrics of OpenTelemetry. With the feature `otel`, every agent has this
/// listener. Without the feature, set the listener with [`Trace::listener`](harness_core::trace::Trace::listener).
///
/// ```
/// use harness::{Agent, otel::OtelListener, testing::{ScriptedProvider, reply}, trace::Trace};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// let agent = Agent::builder(model).trace(Trace::default().listener(OtelListener)).build()?;
/// agent.run("Say hello.").await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OtelListener;

impl TraceListener for OtelListener {
    fn listen(&self, trace: &Trace) -> Box<dyn RunListener> {
        Box::new(OtelSpans::new(trace.has_content_in_spans()))
    }
}

/// The spans that are open, and the histograms.
pub(super) struct OtelSpans {
    run: Span,
    chat: Option<ChatSpan>,
    calls: HashMap<String, Span>,
    /// The current operation of the journal.
    pub(super) operation: Option<OperationSpan>,
    asked: (String, String),
    pub(super) tools: KnownTools,
    /// `None` if there is no meter provider.
    pub(super) meters: Option<OtelMeters>,
    /// Whether the arrival time of the next piece of the answer has to be measured.
    timed: bool,
    pub(super) content: bool,
}

/// An answer that is being received.
struct ChatSpan {
    span: Span,
    begun: Instant,
    /// The time at which the last piece of the answer arrived.
    last: Option<Instant>,
    /// The metric attributes of each piece of the answer, created once.
    attributes: Vec<KeyValue>,
}

pub(super) struct OtelMeters {
    duration: Histogram<f64>,
    first_chunk: Histogram<f64>,
    per_chunk: Histogram<f64>,
    tokens: Histogram<u64>,
    pub(super) journal: JournalMeters,
}

impl OtelMeters {
    /// Creates the histograms at the global meter provider; `None` if the program has not set a meter provider.
    fn global() -> Option<Self> {
        let provider = global::meter_provider();
        measures(&*provider).then(|| Self::new(&provider.meter("harness")))
    }

    fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let tokens = meter
            .u64_histogram("gen_ai.client.token.usage")
            .with_unit("{token}")
            .with_description("Number of input and output tokens used.")
            .with_boundaries((0..14).map(|power| 4_f64.powi(power)).collect())
            .build();
        let long: Vec<f64> = (0..14).map(|power| 0.01 * 2_f64.powi(power)).collect();
        let short: Vec<f64> = (0..14).map(|power| 0.001 * 2_f64.powi(power)).collect();
        Self {
            duration: seconds(
                "gen_ai.client.operation.duration",
                "GenAI operation duration.",
                &long,
            ),
            first_chunk: seconds(
                "gen_ai.client.operation.time_to_first_chunk",
                "Time to receive the first chunk of a streamed answer.",
                &short,
            ),
            per_chunk: seconds(
                "gen_ai.client.operation.time_per_output_chunk",
                "Time between two chunks of a streamed answer.",
                &short,
            ),
            tokens,
            journal: JournalMeters::new(meter),
        }
    }
}

/// Whether this is a real meter provider, and not the placeholder that OpenTelemetry uses if the program sets none.
/// OpenTelemetry has no function for this check. The placeholder has size 0, and drops attributes.
fn measures(provider: &(dyn MeterProvider + Send + Sync)) -> bool {
    static GIVEN: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("harness"));
    if size_of_val(provider) > 0 {
        return true;
    }
    let given = KeyValue::new("harness", Arc::clone(&GIVEN));
    let scope = InstrumentationScope::builder("harness").with_attributes([given]).build();
    let _meter = provider.meter_with_scope(scope);
    Arc::strong_count(&GIVEN) > 1
}

impl RunListener for OtelSpans {
    fn is_listening(&self) -> bool {
        LevelFilter::current() >= LevelFilter::WARN || self.meters.is_some()
    }

    fn happened(&mut self, what: &Happened) {
        match what {
            Happened::RunStarted {
                provider, model, tools, conversation, journaled, said, ..
            } => {
                self.tools = KnownTools::new(tools);
                self.begin(provider, model, conversation.as_deref(), said.as_deref());
                if let Some(journaled) = journaled {
                    self.run.record("harness.conversation", journaled.as_str());
                }
            }
            Happened::TurnStarted { .. } => self.turn(),
            Happened::ModelReplied {
                text,
                calls,
                stop,
                usage,
                provider,
                model,
                response,
                answer_way,
                ..
            } => {
                let Some(chat) = self.chat.take() else { return };
                let model = names::model(model, &self.asked.1);
                self.measure(&chat, provider, Some(model), usage, None);
                if chat.span.is_disabled() {
                    return;
                }
                let reason = finish_reason(*stop);
                let reasons = Value::Array(Array::String(vec![StringValue::from(reason)]));
                chat.span.set_attribute("gen_ai.response.finish_reasons", reasons);
                chat.span.record("gen_ai.response.model", model);
                if *provider != self.asked.0 {
                    chat.span.record("gen_ai.provider.name", provider.as_str());
                }
                if let Some(way) = answer_way {
                    chat.span.set_attribute("gen_ai.output.type", "json");
                    chat.span.set_attribute("harness.answer.way", way.to_string());
                }
                if let Some(id) = response {
                    chat.span.record("gen_ai.response.id", names::id(id));
                }
                if self.content {
                    let said = output_message(text, calls, reason);
                    chat.span.record("gen_ai.output.messages", said.as_str());
                }
                record_usage(&chat.span, usage);
            }
            Happened::Interrupted { cause, usage, .. } => {
                let (kind, words, detail) = describe_cause(cause);
                event!(
                    name: "harness.interrupt",
                    parent: self.outer(),
                    Level::INFO,
                    harness.interrupt.cause = kind,
                    harness.interrupt.detail = self.content.then_some(detail)
                );
                let Some(chat) = self.chat.take() else { return };
                let words = if self.content { format!("{words}: {detail}") } else { words };
                failed(&chat.span, kind, &words);
                record_usage(&chat.span, usage);
                let provider = self.asked.0.clone();
                self.measure(&chat, &provider, None, usage, Some(kind));
            }
            Happened::CallStarted { call, tool, arguments, early } => {
                let name = self.tools.name(tool);
                let span = info_span!(
                    parent: &self.run,
                    "execute_tool",
                    otel.name = format!("execute_tool {name}"),
                    otel.kind = "internal",
                    otel.status_code = Empty,
                    otel.status_description = Empty,
                    error.type = Empty,
                    gen_ai.operation.name = "execute_tool",
                    gen_ai.tool.name = name,
                    gen_ai.tool.call.id = names::id(call),
                    gen_ai.tool.type = "function",
                    gen_ai.tool.call.arguments = Empty,
                    gen_ai.tool.call.result = Empty,
                    harness.call.early_start = *early,
                    harness.call.outcome = Empty,
                );
                if span.is_disabled() {
                    return;
                }
                if self.content {
                    span.record("gen_ai.tool.call.arguments", arguments.as_str());
                }
                self.calls.insert(call.clone(), span);
            }
            Happened::CallDecided { call, denied, waited_ms, .. } => {
                event!(
                    name: "harness.approval",
                    parent: self.outer(),
                    Level::INFO,
                    gen_ai.tool.call.id = names::id(call),
                    harness.approval.allowed = denied.is_none(),
                    harness.approval.reason = self.content.then_some(denied.as_deref()).flatten(),
                    harness.wait.duration = seconds(*waited_ms)
                );
                self.waited(what);
            }
            Happened::Retried { attempt, of, wait_us, cause } => event!(
                name: "harness.retry",
                parent: self.speaking(),
                Level::WARN,
                harness.retry.attempt = i64::from(*attempt),
                harness.retry.of = i64::from(*of),
                harness.retry.wait = Duration::from_micros(*wait_us).as_secs_f64(),
                harness.retry.cause = self.content.then_some(cause.as_str())
            ),
            Happened::FellBack { from, to, cause } => event!(
                name: "harness.fallback",
                parent: self.speaking(),
                Level::WARN,
                harness.fallback.from = from.as_str(),
                harness.fallback.to = to.as_str(),
                harness.fallback.cause = self.content.then_some(cause.as_str())
            ),
            Happened::ParameterDropped { parameter, cause } => event!(
                name: "harness.parameter_dropped",
                parent: self.speaking(),
                Level::WARN,
                harness.parameter.name = parameter.as_str(),
                harness.parameter.cause = self.content.then_some(cause.as_str())
            ),
            Happened::PrefixChanged { appended, left_out: left_out @ 1.., .. } => event!(
                name: "harness.prefix_changed",
                parent: self.speaking(),
                Level::WARN,
                harness.prefix.appended = *appended,
                harness.prefix.left_out = i64::try_from(*left_out).unwrap_or(i64::MAX)
            ),
            Happened::LimitNear { limit, detail } | Happened::LimitUnknown { limit, detail } => {
                event!(
                    name: "harness.guard.warning",
                    parent: self.outer(),
                    Level::WARN,
                    harness.guard.limit = limit.to_string(),
                    // The detail can contain the name of the model that answered.
                    harness.guard.detail = self.content.then_some(detail.as_str())
                );
            }
            Happened::RunEnded { outcome, answered, turns, cost, .. } => {
                self.run.record("harness.outcome", outcome.as_str());
                self.run.record("harness.turns", i64::from(*turns));
                if let Some(cost) = cost {
                    self.run.record("harness.cost", *cost);
                }
                if !answered {
                    failed(&self.run, "stopped", outcome);
                }
                self.chat = None;
                self.run = Span::none();
            }
            Happened::CallWaits { .. }
            | Happened::CallAnswered { .. }
            | Happened::CallSettled { .. }
            | Happened::CallCleared { .. }
            | Happened::CallUndecided { .. }
            | Happened::GrantRevoked { .. }
            | Happened::ReconcileFailed { .. }
            | Happened::Reopened { .. }
            | Happened::Forked { .. }
            | Happened::Hold { .. }
            | Happened::Appended { .. } => self.kept(what),
            _ => {}
        }
    }

    fn operation_began(&mut self, operation: &'static str, journal: &str, conversation: &str) {
        self.begin_operation(operation, journal, conversation);
    }

    #[inline]
    fn chunk(&mut self) {
        if self.timed {
            self.time_chunk();
        }
    }

    fn answer_scope(&mut self) -> Option<Box<dyn TraceScope>> {
        let span = self.speaking();
        (!span.is_disabled()).then(|| Box::new(AnswerScope(span)) as _)
    }

    fn call_scope(&mut self, call: &str) -> Option<Box<dyn TraceScope>> {
        let span = self.calls.remove(call)?;
        Some(Box::new(CallScope { span, has_ended: false }))
    }
}

impl OtelSpans {
    /// Creates the state for a run that begins now. `content` says whether the spans may contain texts.
    fn new(content: bool) -> Self {
        Self {
            run: Span::none(),
            chat: None,
            calls: HashMap::new(),
            operation: None,
            asked: Default::default(),
            tools: KnownTools::default(),
            meters: OtelMeters::global(),
            timed: false,
            content,
        }
    }

    fn time_chunk(&mut self) {
        let (Some(chat), meters) = (&mut self.chat, self.meters.as_ref()) else { return };
        let now = Instant::now();
        match chat.last.replace(now) {
            None => {
                let waited = now.duration_since(chat.begun).as_secs_f64();
                chat.span.record("gen_ai.response.time_to_first_chunk", waited);
                if let Some(meters) = meters {
                    meters.first_chunk.record(waited, &chat.attributes);
                }
                // The span records only the time of the first piece. Later pieces are needed only for metrics.
                self.timed = meters.is_some();
            }
            Some(before) => {
                if let Some(meters) = meters {
                    let waited = now.duration_since(before).as_secs_f64();
                    meters.per_chunk.record(waited, &chat.attributes);
                }
            }
        }
    }

    fn speaking(&self) -> Span {
        self.chat.as_ref().map_or_else(|| self.outer(), |chat| chat.span.clone())
    }

    /// The span of the run, or else the program's current span.
    pub(super) fn outer(&self) -> Span {
        if self.run.is_none() { Span::current() } else { self.run.clone() }
    }

    fn begin(
        &mut self,
        provider: &str,
        model: &str,
        conversation: Option<&str>,
        said: Option<&str>,
    ) {
        self.asked = (provider.to_owned(), model.to_owned());
        self.run = info_span!(
            "invoke_agent",
            otel.kind = "internal",
            otel.status_code = Empty,
            otel.status_description = Empty,
            error.type = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = provider,
            gen_ai.request.model = model,
            gen_ai.conversation.id = conversation,
            gen_ai.input.messages = Empty,
            harness.conversation = Empty,
            harness.outcome = Empty,
            harness.turns = Empty,
            harness.cost = Empty,
        );
        if let Some(said) = said.filter(|_| self.content) {
            let part = serde_json::json!([{"type": "text", "content": said}]);
            let message = serde_json::json!([{"role": "user", "parts": part}]).to_string();
            self.run.record("gen_ai.input.messages", message.as_str());
        }
    }

    fn turn(&mut self) {
        let (provider, model) = &self.asked;
        let span = info_span!(
            parent: &self.run,
            "chat",
            otel.name = format!("chat {model}"),
            otel.kind = "client",
            otel.status_code = Empty,
            otel.status_description = Empty,
            error.type = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider.as_str(),
            gen_ai.request.model = model.as_str(),
            gen_ai.request.stream = true,
            gen_ai.response.id = Empty,
            gen_ai.response.model = Empty,
            gen_ai.response.time_to_first_chunk = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            gen_ai.output.messages = Empty,
        );
        let measured = self.meters.is_some();
        self.timed = measured || !span.is_disabled();
        let attributes = if measured { of_chat(provider, model) } else { Vec::new() };
        self.chat = Some(ChatSpan { span, begun: Instant::now(), last: None, attributes });
    }

    fn measure(
        &self,
        chat: &ChatSpan,
        provider: &str,
        model: Option<&str>,
        usage: &Usage,
        error: Option<&'static str>,
    ) {
        let Some(meters) = &self.meters else { return };
        let mut attributes = of_chat(provider, &self.asked.1);
        attributes
            .extend(model.map(|model| KeyValue::new("gen_ai.response.model", model.to_owned())));
        for (kind, count) in [("input", usage.input), ("output", usage.output)] {
            if let Some(count) = count {
                let kind = [KeyValue::new("gen_ai.token.type", kind)];
                meters.tokens.record(count, &[attributes.as_slice(), &kind].concat());
            }
        }
        attributes.extend(error.map(|error| KeyValue::new("error.type", error)));
        meters.duration.record(chat.begun.elapsed().as_secs_f64(), &attributes);
    }
}

/// The span in which an answer is received.
struct AnswerScope(Span);

impl TraceScope for AnswerScope {
    fn enter(&self) {
        enter(&self.0);
    }

    fn leave(&self) {
        leave(&self.0);
    }
}

/// The span in which a call runs. The span ends with the call.
struct CallScope {
    span: Span,
    has_ended: bool,
}

impl TraceScope for CallScope {
    fn enter(&self) {
        enter(&self.span);
    }

    fn leave(&self) {
        leave(&self.span);
    }

    fn ended(&mut self, mut end: EndedCall<'_>) {
        self.has_ended = true;
        let Some(outcome) = end.outcome() else {
            self.span.record("harness.call.outcome", "waits");
            return;
        };
        if let Some(text) = end.text() {
            self.span.record("gen_ai.tool.call.result", text.as_str());
        }
        record_outcome(&self.span, outcome);
    }
}

impl Drop for CallScope {
    fn drop(&mut self) {
        if !self.has_ended {
            self.span.record("harness.call.outcome", "stopped");
            failed(&self.span, "stopped", "the call was stopped while it ran");
        }
    }
}

/// Enters the span on this thread. Unlike `Span::enter`, this function does not keep the span borrowed.
fn enter(span: &Span) {
    span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
}

fn leave(span: &Span) {
    span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
}

pub(super) fn outcome_name(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Succeeded => "succeeded",
        CallOutcome::Failed => "failed",
        CallOutcome::Denied => "denied",
        CallOutcome::NotStarted => "not_started",
        CallOutcome::StoppedReading => "stopped_reading",
        CallOutcome::InDoubt => "in_doubt",
        CallOutcome::StillRunning => "still_running",
    }
}

fn record_outcome(span: &Span, outcome: CallOutcome) {
    let name = outcome_name(outcome);
    span.record("harness.call.outcome", name);
    if outcome.is_error() {
        failed(span, name, "the call did not succeed");
    }
}

pub(super) fn failed(span: &Span, kind: &str, words: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", words);
}

fn record_usage(span: &Span, usage: &Usage) {
    let Usage { input, cache_read, cache_write, output, reasoning, compaction: _ } = usage;
    let counts = [
        ("gen_ai.usage.input_tokens", input),
        ("gen_ai.usage.output_tokens", output),
        ("gen_ai.usage.cache_read.input_tokens", cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", cache_write),
        ("gen_ai.usage.reasoning.output_tokens", reasoning),
    ];
    for (name, count) in counts {
        if let Some(count) = count {
            span.record(name, i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }
}

fn of_chat(provider: &str, model: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("gen_ai.operation.name", "chat"),
        KeyValue::new("gen_ai.provider.name", provider.to_owned()),
        KeyValue::new("gen_ai.request.model", model.to_owned()),
    ]
}

/// The name of a stop reason in OpenTelemetry's conventions.
fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Complete => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::Truncated => "length",
        StopReason::Paused => "pause",
        StopReason::Refused => "content_filter",
        StopReason::Unsupported(_) => "unsupported",
    }
}

/// The attribute value, the text and the detail of a cause. The detail can quote the user, the model or a server.
fn describe_cause(cause: &InterruptCause) -> (&'static str, String, &str) {
    match cause {
        InterruptCause::Program => ("cancelled", "stopped by the program".to_owned(), ""),
        InterruptCause::Limit { limit, scope: LimitScope::Run, detail } => {
            ("limit", limit.to_string(), detail)
        }
        InterruptCause::Limit { limit, scope, detail } => {
            ("limit", format!("{limit} of the {scope}"), detail)
        }
        InterruptCause::Denial { call } => ("denial", "a call was denied".to_owned(), call),
        InterruptCause::Failure { error, .. } => ("failure", "the run failed".to_owned(), error),
    }
}

/// The answer in the format that OpenTelemetry's conventions define.
fn output_message(text: &str, calls: &[TracedCall], reason: &str) -> String {
    let text = (!text.is_empty()).then(|| serde_json::json!({"type": "text", "content": text}));
    let calls = calls.iter().map(|TracedCall { call, tool, arguments }| {
        serde_json::json!({"type": "tool_call", "id": call, "name": tool, "arguments": arguments})
    });
    let parts: Vec<serde_json::Value> = text.into_iter().chain(calls).collect();
    serde_json::json!([{"role": "assistant", "parts": parts, "finish_reason": reason}]).to_string()
}
