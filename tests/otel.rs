//! The telemetry of a run, through `tracing`, as an OpenTelemetry exporter receives it.
//!
//! With `HARNESS_OTLP=http://127.0.0.1:4318` a run is also sent to a real receiver there.

#[path = "otel/words.rs"]
mod words;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use harness::{
    Agent, Error, ErrorKind, Permissions, Provider, SideEffect, SideEffects, StreamEvent, Tool,
    ToolError, Usage,
    agent::Action,
    journal::{Envelope, Fact, Head, Journal as _, MemoryJournal},
    policy::{ApprovalRequest, Guardrails, RetryPolicy, RetryProvider},
    provider::{EventStream, Request},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
    trace::{Redaction, Trace},
};
use opentelemetry::{
    InstrumentationScope, Value,
    metrics::{
        Histogram, HistogramBuilder, InstrumentProvider, Meter, MeterProvider, NoopMeterProvider,
    },
    trace::TracerProvider as _,
};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
        data::{AggregatedMetrics, MetricData},
    },
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;

/// A tool that takes 5 ms and tells `tracing` of a span of its own.
fn look() -> Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let effects = SideEffects::of(&[SideEffect::Read]);
    Tool::new("look", "Looks.", schema, effects, |_, arguments| {
        Box::pin(async move {
            let _inner = tracing::info_span!("query").entered();
            match arguments.get("fail") {
                Some(_) => Err(ToolError::new("nothing there")),
                None => {
                    Ok(json!({"seen": "a cat", "session_token": "t-123456789"}).to_string().into())
                }
            }
        })
    })
}

fn model() -> ScriptedProvider {
    let whole = Usage {
        input: Some(100),
        cache_read: Some(60),
        cache_write: Some(20),
        output: Some(30),
        reasoning: Some(12),
        compaction: None,
    };
    let busy = || Error::new(ErrorKind::Api, "Overloaded").with_status(529);
    ScriptedProvider::new([
        reply().error(busy().with_retry_after(Duration::from_millis(1))),
        reply()
            .text("Let me see.")
            .call("look", json!({"password": "hunter2-hunter2", "at": "home"}))
            .call("look", json!({"fail": true}))
            .pause(Duration::from_millis(20))
            .usage(whole),
        reply().text("A cat.").tokens(150, 5),
    ])
    .with_name("anthropic")
    .with_model("claude-test")
}

/// Runs it with this trace, and under this exporter of spans.
async fn run(spans: Option<SdkTracerProvider>, trace: Trace) -> harness::Reply {
    let _listening = spans.map(|spans| {
        let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("harness"));
        tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
    });
    let agent = Agent::builder(RetryProvider::new(model(), RetryPolicy::default()))
        .tools([look()])
        .guardrails(Guardrails::default().turns(2))
        .trace(trace)
        .build()
        .expect("an agent");
    agent.run("What is at home?").await.expect("an answer")
}

fn attributes(span: &SpanData) -> HashMap<&str, &Value> {
    span.attributes.iter().map(|pair| (pair.key.as_str(), &pair.value)).collect()
}

/// The attributes that hold words, where they are asked for.
const WORDS: [&str; 4] = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
];

/// Those of them that are there.
fn words_in(spans: &[SpanData]) -> Vec<&'static str> {
    let is_there = |name: &&str| spans.iter().any(|span| attributes(span).contains_key(name));
    WORDS.into_iter().filter(is_there).collect()
}

/// Held by each test: meters are global.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it with these providers.
fn one_run<M>(spans: Option<&SdkTracerProvider>, meters: M, trace: Trace)
where
    M: MeterProvider + Send + Sync + 'static,
{
    opentelemetry::global::set_meter_provider(meters);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run(spans.cloned(), trace));
}

/// What was measured: name, unit, and the count of the values or, of whole numbers, their sum.
type Measured = Vec<(String, String, u64)>;

fn exporters() -> (SdkTracerProvider, InMemorySpanExporter) {
    let exporter = InMemorySpanExporter::default();
    (SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build(), exporter)
}

fn readers() -> (SdkMeterProvider, InMemoryMetricExporter) {
    let metrics = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(metrics.clone()).build();
    (SdkMeterProvider::builder().with_reader(reader).build(), metrics)
}

fn told(content: bool) -> (Vec<SpanData>, Measured) {
    let ((spans, exporter), (meters, metrics)) = (exporters(), readers());
    let trace = Trace::default().redaction(Redaction::default()).content_in_spans(content);
    one_run(Some(&spans), meters.clone(), trace);
    spans.force_flush().expect("exported");
    (exporter.get_finished_spans().expect("spans"), measured(&meters, &metrics))
}

fn measured(meters: &SdkMeterProvider, metrics: &InMemoryMetricExporter) -> Measured {
    meters.force_flush().expect("exported");
    let mut counted = Vec::new();
    for metric in
        metrics.get_finished_metrics().expect("metrics").iter().flat_map(|of| of.scope_metrics())
    {
        for metric in metric.metrics() {
            let counts: Vec<u64> = match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(of)) => {
                    of.data_points().map(|point| point.count()).collect()
                }
                AggregatedMetrics::U64(MetricData::Histogram(of)) => {
                    of.data_points().map(|point| point.sum()).collect()
                }
                AggregatedMetrics::U64(MetricData::Sum(of)) => {
                    of.data_points().map(|point| point.value()).collect()
                }
                other => panic!("{other:?}"),
            };
            let (name, unit) = (metric.name().to_owned(), metric.unit().to_owned());
            counted.push((name, unit, counts.iter().sum()));
        }
    }
    counted
}

/// What every run of the script amounts to.
fn assert_measured(metrics: &Measured) {
    let metric = |name: &str| {
        let found = metrics.iter().find(|(of, _, _)| of == name);
        found.map(|(_, unit, count)| (unit.as_str(), *count))
    };
    assert_eq!(metric("gen_ai.client.operation.duration"), Some(("s", 2)));
    assert_eq!(metric("gen_ai.client.operation.time_to_first_chunk"), Some(("s", 2)));
    assert!(metric("gen_ai.client.operation.time_per_output_chunk").is_some_and(|(_, n)| n > 2));
    assert_eq!(metric("gen_ai.client.token.usage"), Some(("{token}", 285)));
}

#[test]
fn spans_and_metrics_are_named_by_the_conventions() {
    let _alone = alone();
    let (spans, metrics) = told(false);
    let by_name =
        |name: &str| -> Vec<&SpanData> { spans.iter().filter(|span| span.name == name).collect() };
    let [agent] = by_name("invoke_agent")[..] else { panic!("{spans:?}") };
    let chats = by_name("chat claude-test");
    let tools = by_name("execute_tool look");
    assert_eq!((chats.len(), tools.len(), by_name("query").len()), (2, 2, 2));
    assert_eq!(spans.len(), 7);

    // The tree: what a tool tells of itself stands below its call.
    let of_agent = agent.span_context.span_id();
    assert!(chats.iter().chain(&tools).all(|span| span.parent_span_id == of_agent));
    for query in by_name("query") {
        assert!(tools.iter().any(|tool| tool.span_context.span_id() == query.parent_span_id));
    }

    let agent_says = attributes(agent);
    assert_eq!(agent_says["gen_ai.operation.name"].as_str(), "invoke_agent");
    assert_eq!(agent_says["gen_ai.provider.name"].as_str(), "anthropic");
    assert!(agent_says["gen_ai.conversation.id"].as_str().starts_with("msg_"));
    assert_eq!(agent_says["harness.turns"], &Value::I64(2));
    let events = |span: &SpanData| -> Vec<String> {
        span.events.iter().map(|event| event.name.to_string()).collect()
    };
    assert_eq!(events(agent), ["harness.approval", "harness.approval", "harness.guard.warning"]);
    assert_eq!(events(chats[0]), ["harness.retry"]);

    let chat = attributes(chats[0]);
    assert_eq!(chat["gen_ai.operation.name"].as_str(), "chat");
    assert_eq!(chat["gen_ai.request.model"].as_str(), "claude-test");
    assert_eq!(chat["gen_ai.response.model"].as_str(), "claude-test");
    assert!(chat["gen_ai.response.id"].as_str().starts_with("scripted_"));
    assert_eq!(chat["gen_ai.response.finish_reasons"].to_string(), "[\"tool_call\"]");
    assert!(matches!(chat["gen_ai.response.time_to_first_chunk"], Value::F64(_)));
    for (name, count) in [
        ("gen_ai.usage.input_tokens", 100),
        ("gen_ai.usage.output_tokens", 30),
        ("gen_ai.usage.cache_read.input_tokens", 60),
        ("gen_ai.usage.cache_creation.input_tokens", 20),
        ("gen_ai.usage.reasoning.output_tokens", 12),
    ] {
        assert_eq!(chat[name], &Value::I64(count), "{name}");
    }
    let counts_usage =
        |span: &&SpanData| attributes(span).keys().any(|name| name.starts_with("gen_ai.usage."));
    assert!(spans.iter().filter(counts_usage).all(|span| span.name.starts_with("chat ")));

    let worked =
        tools.iter().find(|tool| attributes(tool)["harness.call.outcome"].as_str() == "succeeded");
    let worked = worked.expect("one succeeded");
    assert_eq!(attributes(worked)["harness.call.early_start"], &Value::Bool(true));
    assert_eq!(attributes(worked)["gen_ai.tool.type"].as_str(), "function");
    assert!(worked.end_time < chats[0].end_time, "it ended before the model did");
    let fell = tools.iter().find(|tool| attributes(tool).contains_key("error.type"));
    assert!(matches!(fell.expect("one failed").status, opentelemetry::trace::Status::Error { .. }));

    let said = format!("{spans:?}");
    for words in ["home", "A cat", "a cat", "hunter2", "t-123456789", "nothing there"] {
        assert!(!said.contains(words), "{words}");
    }
    assert_eq!(words_in(&spans), [""; 0]);
    let deprecated = ["gen_ai.system", "gen_ai.usage.prompt_tokens", "gen_ai.prompt"];
    assert!(
        !spans.iter().any(|span| deprecated.iter().any(|name| attributes(span).contains_key(name)))
    );

    assert_measured(&metrics);

    // Words only where they are asked for, and never what is secret.
    let (spans, _) = told(true);
    let said = format!("{spans:?}");
    for words in ["What is at home?", "A cat.", "a cat", "nothing there"] {
        assert!(said.contains(words), "{words}");
    }
    assert_eq!(words_in(&spans), WORDS);
    for secret in ["hunter2", "t-123456789"] {
        assert!(!said.contains(secret), "{secret}");
    }
}

/// Who measures hears of all, also where nobody wants spans and no trace is kept.
#[test]
fn metrics_need_no_subscriber_and_no_trace() {
    let _alone = alone();
    for trace in [Trace::default(), Trace::off()] {
        let (meters, metrics) = readers();
        one_run(None, meters.clone(), trace);
        assert_measured(&measured(&meters, &metrics));
    }
}

#[test]
fn spans_need_no_meters_and_no_trace() {
    let _alone = alone();
    for trace in [Trace::default(), Trace::off()] {
        let (spans, exporter) = exporters();
        one_run(Some(&spans), NoopMeterProvider::new(), trace);
        let spans = exporter.get_finished_spans().expect("spans");
        assert_eq!(spans.len(), 7);
        assert_eq!(words_in(&spans), [""; 0], "nobody has asked for words");
        let chats: Vec<_> = spans.iter().filter(|span| span.name == "chat claude-test").collect();
        let first_chunk = "gen_ai.response.time_to_first_chunk";
        assert!(chats.iter().all(|chat| matches!(attributes(chat)[first_chunk], Value::F64(_))));
        let input = |chat: &&SpanData| attributes(chat)["gen_ai.usage.input_tokens"].clone();
        let inputs: Vec<_> = chats.iter().map(input).collect();
        assert_eq!(inputs, [Value::I64(100), Value::I64(150)]);
    }
}

/// The spans of a run end with it, also where its conversation waits; those of calls that were
/// stopped say so.
#[test]
fn spans_end_with_the_run_and_say_how() {
    let _alone = alone();
    let (spans, exporter) = exporters();
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("harness"));
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let effects = SideEffects::of(&[SideEffect::Read]);
    let never = Tool::new("never", "Never ends.", json!({"type": "object"}), effects, |_, _| {
        Box::pin(std::future::pending())
    });
    let model = ScriptedProvider::new([
        reply().text("Hello.").tokens(1, 1),
        reply().call("never", json!({})).tokens(1, 1),
    ]);
    let agent = Agent::builder(model).tools([never]);
    let agent = agent.guardrails(Guardrails::none().time(Duration::from_secs(1))).build();
    let mut chat = agent.expect("an agent").chat();
    let names = || -> Vec<String> {
        let spans = exporter.get_finished_spans().expect("spans");
        spans.iter().map(|span| span.name.to_string()).collect()
    };
    runtime.block_on(chat.send("Hello?").into_future()).expect("an answer");
    assert_eq!(names(), ["chat scripted", "invoke_agent"]);
    exporter.reset();
    runtime.block_on(chat.send("And?").into_future()).expect_err("it takes too long");
    assert_eq!(names(), ["chat scripted", "execute_tool never", "invoke_agent"]);
    let spans = exporter.get_finished_spans().expect("spans");
    assert_eq!(attributes(&spans[1])["harness.call.outcome"].as_str(), "stopped");
    assert_eq!(attributes(&spans[1])["error.type"].as_str(), "stopped");
    assert!(attributes(&spans[2])["harness.outcome"].as_str().contains("the limit of time"));
    for ended in &spans[1..] {
        assert!(matches!(ended.status, opentelemetry::trace::Status::Error { .. }), "{ended:?}");
    }
}

/// The run of an agent stands below the call that runs it, at each depth.
#[test]
fn the_spans_of_agents_stand_below_the_calls_that_run_them() {
    let _alone = alone();
    let (spans, exporter) = exporters();
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("harness"));
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let calls = |tool: &'static str| {
        ScriptedProvider::new([reply().call(tool, json!({"task": "Go."})), reply().text("Done.")])
    };
    let build =
        |model, below: Option<Tool>| Agent::builder(model).tools(below).build().expect("an agent");
    let deep = build(ScriptedProvider::new([reply().text("Done.")]), None);
    let middle = build(calls("deep"), Some(deep.as_tool("deep", "Works.")));
    let lead = build(calls("middle"), Some(middle.as_tool("middle", "Works.")));
    runtime.expect("a runtime").block_on(lead.run("Go.").into_future()).expect("an answer");
    let spans = exporter.get_finished_spans().expect("spans");
    let runs = spans.iter().filter(|span| span.name == "invoke_agent");
    let above = |span: &SpanData| {
        let above = spans.iter().find(|it| it.span_context.span_id() == span.parent_span_id);
        above.map(|span| span.name.to_string())
    };
    let above: Vec<Option<String>> = runs.map(above).collect();
    let call = |name: &str| Some(format!("execute_tool {name}"));
    assert_eq!(above, [call("deep"), call("middle"), None]);
}

/// Where nobody measures, not even the instruments are made. A provider that keeps nothing itself,
/// but hands on to one that does, is another matter.
#[test]
fn nothing_is_measured_for_one_that_keeps_nothing_and_hands_on_to_nobody() {
    let _alone = alone();
    static MADE: AtomicUsize = AtomicUsize::new(0);
    struct KeepsNothing;
    impl MeterProvider for KeepsNothing {
        fn meter_with_scope(&self, _: InstrumentationScope) -> Meter {
            Meter::new(Arc::new(Self))
        }
    }
    impl InstrumentProvider for KeepsNothing {
        fn f64_histogram(&self, _: HistogramBuilder<'_, Histogram<f64>>) -> Histogram<f64> {
            MADE.fetch_add(1, Ordering::Relaxed);
            NoopMeterProvider::new().meter("none").f64_histogram("none").build()
        }
    }
    one_run(None, KeepsNothing, Trace::default());
    assert_eq!(MADE.load(Ordering::Relaxed), 0);

    static REAL: Mutex<Option<SdkMeterProvider>> = Mutex::new(None);
    struct HandsOn;
    impl MeterProvider for HandsOn {
        fn meter_with_scope(&self, scope: InstrumentationScope) -> Meter {
            let real = REAL.lock().unwrap_or_else(PoisonError::into_inner).clone();
            real.expect("it is set").meter_with_scope(scope)
        }
    }
    let (meters, metrics) = readers();
    *REAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(meters.clone());
    for runs in 1..=2 {
        one_run(None, HandsOn, Trace::default());
        let measured = measured(&meters, &metrics);
        let durations = measured.iter().filter(|(of, ..)| of.ends_with("operation.duration"));
        assert_eq!(durations.map(|(_, _, count)| *count).max(), Some(2 * runs));
    }
    // One that panics, as this one does from here on, ends no run either.
    REAL.lock().unwrap_or_else(PoisonError::into_inner).take();
    one_run(None, HandsOn, Trace::default());
    opentelemetry::global::set_meter_provider(NoopMeterProvider::new());
}

/// What a provider tells of itself stands below the turn; an answer that breaks off is measured.
#[test]
fn what_a_provider_does_is_a_part_of_the_turn_and_failures_are_measured() {
    struct Tells(ScriptedProvider);
    impl Provider for Tells {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn model(&self) -> &str {
            self.0.model()
        }
        fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
            let told = |_: &Result<StreamEvent, Error>| drop(tracing::info_span!("socket"));
            self.0.stream(request).inspect(told).boxed()
        }
    }
    let _alone = alone();
    let ((spans, exporter), (meters, metrics)) = (exporters(), readers());
    opentelemetry::global::set_meter_provider(meters.clone());
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("harness"));
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let model = ScriptedProvider::new([reply().text("Well,").cut()]);
    let agent = Agent::builder(Tells(model)).build().expect("an agent");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let run = agent.run("Go.").into_future();
    runtime.expect("a runtime").block_on(run).expect_err("it breaks off");

    let spans = exporter.get_finished_spans().expect("spans");
    let chat = spans.iter().find(|span| span.name == "chat scripted").expect("a turn");
    let told: Vec<_> = spans.iter().filter(|span| span.name == "socket").collect();
    assert!(!told.is_empty());
    assert!(told.iter().all(|span| span.parent_span_id == chat.span_context.span_id()));
    assert_eq!(attributes(chat)["error.type"].as_str(), "failure");
    let measured = measured(&meters, &metrics);
    let duration = measured.iter().find(|(name, ..)| name == "gen_ai.client.operation.duration");
    assert_eq!(duration.map(|(_, _, count)| *count), Some(1));
}

/// A listener is the program's own code: one that panics hears no more of the run, which goes on.
#[test]
fn a_listener_that_panics_ends_no_run() {
    struct Panics;
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Panics {
        fn on_new_span(
            &self,
            _: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            panic!("no listener");
        }
        fn on_event(&self, _: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            panic!("no listener");
        }
    }
    let _alone = alone();
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(Panics));
    let model = ScriptedProvider::new([reply().text("Hello."), reply().text("Again.")]);
    let agent = Agent::builder(model).build().expect("an agent");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    for said in ["Hello.", "Again."] {
        let reply = runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
        assert_eq!(reply.text(), said);
        assert_eq!(reply.trace().events().len(), 5, "the trace in memory is whole");
    }
}

/// A runtime, and a subscriber of this thread that exports spans.
fn watched(
    spans: &SdkTracerProvider,
) -> (tokio::runtime::Runtime, tracing::subscriber::DefaultGuard) {
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("harness"));
    let listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    (runtime.expect("a runtime"), listening)
}

fn told_by(span: &SpanData, name: &str) -> Vec<HashMap<String, Value>> {
    let of = span.events.iter().filter(|event| event.name == name);
    of.map(|event| {
        let pairs = event.attributes.iter();
        pairs.map(|pair| (pair.key.to_string(), pair.value.clone())).collect()
    })
    .collect()
}

/// A journal is a client of a database: holds and appends are spans and metrics by its conventions.
/// What has no word there, such as waits, begins with `harness.`.
#[test]
fn what_a_journal_does_and_who_is_waited_for_is_told() {
    let _alone = alone();
    let ((spans, exporter), (meters, metrics)) = (exporters(), readers());
    opentelemetry::global::set_meter_provider(meters.clone());
    let (runtime, _listening) = watched(&spans);
    let journal = FaultyJournal::new(MemoryJournal::new());
    // The answer to the second one is lost.
    journal.fail(JournalCall::Append, 1, JournalFault::FailAfter);
    let effects = SideEffects::of(&[SideEffect::Network]);
    let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), effects, |_, _| {
        Box::pin(async { Ok("paid".into()) })
    });
    let model = ScriptedProvider::new([reply().call("pay", json!({})), reply().text("Paid.")]);
    let agent = Agent::builder(model).tools([pay]).trace(Trace::off());
    let agent =
        agent.approver(|question: ApprovalRequest| std::future::ready(question.later(None)));
    let agent = agent.build().expect("an agent");
    let question = runtime.block_on(async {
        let mut chat = agent.open(&journal, "chat-17").await.expect("new");
        agent.open(&journal, "chat-17").await.expect_err("it is open");
        chat.send("Pay.").await.expect_err("it waits");
        chat.waiting()[0].question().expect("a question")
    });
    // Somebody decides in a web server, within a span of that one.
    let request = tracing::info_span!("request");
    let decide = async { agent.inbox(&journal).decide("chat-17", question.yes().by("ada")).await };
    runtime.block_on(tracing::Instrument::instrument(decide, request)).expect("it waits");
    runtime.block_on(async {
        let mut chat = agent.open(&journal, "chat-17").await.expect("it is there");
        assert_eq!(chat.resume().await.expect("an answer").text(), "Paid.");
    });

    let spans = exporter.get_finished_spans().expect("spans");
    let by_name =
        |name: &str| -> Vec<&SpanData> { spans.iter().filter(|span| span.name == name).collect() };
    let [first, second] = by_name("invoke_agent")[..] else { panic!("{spans:?}") };
    let [request] = by_name("request")[..] else { panic!("{spans:?}") };
    for run in [first, second] {
        assert_eq!(attributes(run)["harness.conversation"].as_str(), "chat-17");
    }
    let holds = by_name("hold");
    let outcome = |span: &&SpanData| attributes(span)["harness.journal.outcome"].to_string();
    assert_eq!(holds.iter().map(outcome).collect::<Vec<_>>(), ["taken", "busy", "taken"]);
    assert_eq!(attributes(holds[1])["error.type"].as_str(), "busy");
    assert!(matches!(holds[1].status, opentelemetry::trace::Status::Error { .. }));
    let appends = by_name("append");
    let outcomes: Vec<String> = appends.iter().map(outcome).collect();
    let (written, read_back) = ("written", "read_back");
    assert_eq!(outcomes, [written, read_back, written, written, written, written]);
    for span in holds.iter().chain(&appends) {
        assert_eq!(span.span_kind, opentelemetry::trace::SpanKind::Client);
        let says = attributes(span);
        assert_eq!(says["db.system.name"].as_str(), "memory");
        assert_eq!(says["db.operation.name"].as_str(), span.name);
        assert_eq!(says["harness.conversation"].as_str(), "chat-17");
    }
    let below = |parent: &SpanData| {
        let of = parent.span_context.span_id();
        appends.iter().filter(|append| append.parent_span_id == of).count()
    };
    assert_eq!((below(first), below(request), below(second)), (2, 1, 3));
    let facts: i64 = appends
        .iter()
        .map(|append| match attributes(append)["harness.journal.append.facts"] {
            Value::I64(facts) => *facts,
            other => panic!("{other:?}"),
        })
        .sum();

    let wait = told_by(first, "harness.wait");
    assert_eq!(wait.len(), 1);
    assert_eq!(wait[0]["harness.wait.for"].as_str(), "approval");
    assert_eq!(wait[0]["gen_ai.tool.name"].as_str(), "pay");
    let approvals = told_by(request, "harness.approval");
    assert_eq!(approvals.len(), 1, "it stands on the span of the program");
    assert!(matches!(approvals[0]["harness.wait.duration"], Value::F64(_)));
    // Nobody was at work on it, so it was not cut off.
    assert!(told_by(second, "harness.reopened").is_empty());

    let measured = measured(&meters, &metrics);
    let metric = |name: &str| {
        let found = measured.iter().find(|(of, _, _)| of == name);
        found.map(|(_, unit, count)| (unit.as_str(), *count))
    };
    let operations = (holds.len() + appends.len()) as u64;
    assert_eq!(metric("db.client.operation.duration"), Some(("s", operations)));
    assert_eq!(metric("harness.journal.append.facts"), Some(("{fact}", facts.unsigned_abs())));
    assert!(metric("harness.journal.append.size").is_some_and(|(unit, n)| unit == "By" && n > 500));
    assert_eq!(metric("harness.journal.holds"), Some(("{hold}", 3)));
    // It was ended by the inbox, and read by the run: it is one wait.
    assert_eq!(metric("harness.call.wait.duration"), Some(("s", 1)));
    opentelemetry::global::set_meter_provider(NoopMeterProvider::new());
}

/// A tool that fails to find out what became of its call is told, and its words only where words are
/// asked for; an append that fails is an error of its span.
#[test]
fn a_failing_reconcile_and_a_failing_append_are_told() {
    let _alone = alone();
    opentelemetry::global::set_meter_provider(NoopMeterProvider::new());
    for content in [false, true] {
        let (spans, exporter) = exporters();
        let (runtime, _listening) = watched(&spans);
        let pay = || {
            let effects = SideEffects::of(&[SideEffect::Network]);
            let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), effects, |_, _| {
                Box::pin(async { Ok("paid".into()) })
            });
            pay.with_reconcile(|_, _| {
                Box::pin(async { Err(ToolError::new("the bank is closed, tok-12345")) })
            })
        };
        let agent = |model| {
            let agent = Agent::builder(model).tools([pay()]).secret("tok-12345");
            let agent = agent.permissions(Permissions::allow_all());
            agent.trace(Trace::default().content_in_spans(content)).build().expect("an agent")
        };
        runtime.block_on(async {
            let journal = MemoryJournal::new();
            let model =
                ScriptedProvider::new([reply().call("pay", json!({})), reply().text("Paid.")]);
            let mut chat = agent(model).open(&journal, "whole").await.expect("new");
            chat.send("Pay.").await.expect("an answer");
            let facts = journal.read("whole", 0).await.expect("facts").facts;
            let started = |fact: &Envelope| matches!(fact.fact(), Ok(Fact::CallStarted { .. }));
            let at = facts.iter().position(started).expect("it has started");
            journal.append("chat", Head::default(), &facts[..=at]).await.expect("new");
            let faulty = FaultyJournal::new(journal);
            faulty.fail(JournalCall::Append, 2, JournalFault::FailBefore);
            exporter.reset();
            let model = ScriptedProvider::new([reply().text("Done.")]);
            let mut chat = agent(model).open(&faulty, "chat").await.expect("it is there");
            chat.resume().await.expect_err("the end is not written");
        });
        let spans = exporter.get_finished_spans().expect("spans");
        let run = spans.iter().find(|span| span.name == "invoke_agent").expect("a run");
        let failed = told_by(run, "harness.reconcile.failed");
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0]["error.type"].as_str(), "failure");
        assert_eq!(failed[0]["gen_ai.tool.name"].as_str(), "pay");
        let words = failed[0].get("harness.reconcile.error").map(|words| words.to_string());
        let expected = content.then(|| "the bank is closed, [secret]".to_owned());
        assert_eq!(words, expected);
        let reopened = told_by(run, "harness.reopened");
        assert_eq!(reopened[0]["harness.reopened.in_doubt"], Value::I64(1));
        let append = spans.iter().rfind(|span| span.name == "append").expect("appends");
        assert_eq!(attributes(append)["error.type"].as_str(), "failure");
        assert!(matches!(append.status, opentelemetry::trace::Status::Error { .. }));
    }
}

/// What was told of spans.
#[derive(Default)]
struct Told {
    /// How many of each name were opened.
    opened: HashMap<String, usize>,
    open: HashMap<u64, String>,
}

#[derive(Clone, Default)]
struct Opened(Arc<Mutex<Told>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Opened {
    fn on_new_span(
        &self,
        span: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let name = span.metadata().name().to_owned();
        let mut told = self.0.lock().expect("unpoisoned");
        *told.opened.entry(name.clone()).or_default() += 1;
        told.open.insert(id.into_u64(), name);
    }

    fn on_close(&self, id: tracing::span::Id, _: tracing_subscriber::layer::Context<'_, S>) {
        self.0.lock().expect("unpoisoned").open.remove(&id.into_u64());
    }
}

/// Wherever a run or an action is dropped, no span stays open, and each call that ran has had one.
#[test]
fn no_span_stays_open_wherever_a_run_is_dropped() {
    let _alone = alone();
    for (at, by_steps) in (1..40).flat_map(|at| [(at, false), (at, true)]) {
        let (seen, ran) = (Opened::default(), Arc::new(AtomicUsize::new(0)));
        let listening = tracing_subscriber::registry().with(seen.clone());
        let _listening = tracing::subscriber::set_default(listening);
        let tool = |name: &'static str, effect| {
            let (ran, schema) = (Arc::clone(&ran), json!({"type": "object"}));
            Tool::new(name, "Works.", schema, SideEffects::of(&[effect]), move |_, _| {
                let ran = Arc::clone(&ran);
                Box::pin(async move {
                    ran.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(name != "falls", "it falls");
                    Ok("done".into())
                })
            })
        };
        let model = ScriptedProvider::answering(|request| match request.messages().len() {
            1 => reply().call("look", json!({})).call("falls", json!({})).call("note", json!({})),
            3 => reply().text("Well,").cut(),
            _ => reply().text("Done."),
        });
        let tools = [
            tool("look", SideEffect::Read),
            tool("falls", SideEffect::Write),
            tool("note", SideEffect::Write),
        ];
        let agent = Agent::builder(model).tools(tools).build().expect("an agent");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let polls = |future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| async move {
                let mut future = future;
                for _ in 0..at {
                    let polled = std::future::poll_fn(|context| {
                        std::task::Poll::Ready(future.as_mut().poll(context))
                    });
                    if polled.await.is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            };
            let agent = agent.clone();
            polls(Box::pin(async move {
                if !by_steps {
                    let journal = MemoryJournal::new();
                    let mut chat = agent.open(&journal, "chat").await.expect("new");
                    let _ = chat.send("Go.").await;
                    return;
                }
                let mut steps = agent.steps("chat", Vec::new()).expect("new");
                steps.apply(steps.say("Go.".into()).await.expect("new")).expect("it follows");
                while !matches!(steps.next(), Action::Finish(_)) {
                    steps.apply(steps.act().await.expect("facts")).expect("it follows");
                }
            }))
            .await;
        });
        drop(agent);
        let Told { opened, open } = &*seen.0.lock().expect("unpoisoned");
        assert!(open.is_empty(), "{at} {by_steps}: {open:?}");
        let spans = opened.get("execute_tool").copied().unwrap_or(0);
        assert_eq!(spans, ran.load(Ordering::SeqCst), "{at} {by_steps}: {opened:?}");
    }
}

/// Sends a run to a receiver that is no part of this project, where one is named.
#[test]
fn a_real_receiver_takes_it() {
    let Ok(endpoint) = std::env::var("HARNESS_OTLP") else {
        println!("skipped: start a receiver, and name it as HARNESS_OTLP=http://127.0.0.1:4318");
        return;
    };
    let _alone = alone();
    // The exporters' HTTP client wants one, even where it speaks no TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let traces = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .build()
        .expect("an exporter");
    let spans = SdkTracerProvider::builder().with_batch_exporter(traces).build();
    let metrics = MetricExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/metrics"))
        .build()
        .expect("an exporter");
    let meters =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(metrics).build()).build();
    one_run(Some(&spans), meters.clone(), Trace::default());
    spans.force_flush().expect("the receiver takes spans");
    meters.force_flush().expect("the receiver takes metrics");
}
