//! What people, models, servers and tools say stays out of spans and metrics, unless it is asked for.

use std::{collections::HashSet, time::Duration};

use harness::{
    Agent, Error, ErrorKind, SideEffect, SideEffects, StreamEvent, Tool, ToolError,
    journal::MemoryJournal,
    policy::{ApprovalRequest, FallbackProvider, RetryPolicy, RetryProvider},
    testing::{ScriptedProvider, reply},
    trace::Trace,
};
use opentelemetry::{Value, metrics::NoopMeterProvider, trace::Status};
use opentelemetry_sdk::{
    metrics::data::{AggregatedMetrics, MetricData},
    trace::SpanData,
};
use serde_json::json;

use super::{alone, exporters, readers, watched};

/// A word that somebody says in each place, and that no name has.
const SAID: &str = "zebra";

/// All texts of a span: its name, its status, its attributes and its events.
fn texts(span: &SpanData) -> Vec<(String, String)> {
    let mut texts = vec![("name".to_owned(), span.name.to_string())];
    if let Status::Error { description } = &span.status {
        texts.push(("status".to_owned(), description.to_string()));
    }
    for event in span.events.iter() {
        texts.push(("event".to_owned(), event.name.to_string()));
    }
    let of_events = span.events.iter().flat_map(|event| &event.attributes);
    for pair in span.attributes.iter().chain(of_events) {
        texts.push((pair.key.to_string(), pair.value.to_string()));
    }
    texts
}

fn tool(name: &'static str, effect: SideEffect) -> Tool {
    let effects = SideEffects::of(&[effect]);
    Tool::new(name, "Does something.", json!({"type": "object"}), effects, |_, arguments| {
        Box::pin(async move {
            match arguments.get("fail") {
                Some(_) => Err(ToolError::new("the zebra has failed")),
                None => Ok("the zebra was seen".into()),
            }
        })
    })
}

/// Runs in which somebody says it in each place.
async fn say(content: bool) {
    let busy = || {
        let busy = Error::new(ErrorKind::Api, "overloaded by `the zebra`").with_status(529);
        reply().error(busy.with_retry_after(Duration::from_millis(1)))
    };
    let refused = || Error::new(ErrorKind::Api, "it refuses `the zebra`").with_status(400);
    let invented = format!("zebra_{}", "x".repeat(200_000));
    let started = |id: &str, model: &str| StreamEvent::Started {
        id: Some(id.to_owned()),
        model: Some(model.to_owned()),
    };
    let first = ScriptedProvider::new([
        busy(),
        reply()
            .event(started("the zebra has answered", "a zebra that thinks"))
            .text("I see a zebra.")
            .call("look", json!({"at": "the zebra"}))
            .call("look", json!({"fail": "the zebra"}))
            .call("pay", json!({"to": "the zebra"}))
            .call(&invented, json!({}))
            .call_with_id("the id of a zebra", "look", json!({})),
        busy(),
        busy(),
    ]);
    let second = ScriptedProvider::new([reply().error(refused())]);
    let first = RetryProvider::new(first, RetryPolicy { attempts: 2, ..RetryPolicy::default() });
    let agent = Agent::builder(FallbackProvider::new(first).or(second))
        .tools([tool("look", SideEffect::Read), tool("pay", SideEffect::Network)])
        .approver(|question: ApprovalRequest| std::future::ready(question.no("the zebra is poor")))
        .trace(Trace::default().content_in_spans(content))
        .build()
        .expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "chat-17").await.expect("new");
    chat.send("Pay the zebra.").await.expect_err("the second answer fails");
}

fn exported(content: bool) -> Vec<SpanData> {
    let (spans, exporter) = exporters();
    let (runtime, _listening) = watched(&spans);
    runtime.block_on(say(content));
    exporter.get_finished_spans().expect("spans")
}

#[test]
fn what_is_said_is_in_no_span_unless_words_are_asked_for() {
    let _alone = alone();
    opentelemetry::global::set_meter_provider(NoopMeterProvider::new());
    let spans = exported(false);
    let texts: Vec<_> = spans.iter().flat_map(texts).collect();
    for (place, text) in &texts {
        assert!(!text.contains(SAID), "{place}: {text:.200}");
        assert!(text.len() <= 256, "{place}: {text:.200}");
    }
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert!(names.contains(&"execute_tool unknown_tool"), "{names:?}");
    let events: HashSet<_> =
        spans.iter().flat_map(|span| span.events.iter()).map(|it| &*it.name).collect();
    for event in ["harness.retry", "harness.fallback", "harness.approval", "harness.interrupt"] {
        assert!(events.contains(event), "{events:?}");
    }

    // Those who ask for words find them, but the names stay short.
    let spans = exported(true);
    let texts: Vec<_> = spans.iter().flat_map(self::texts).collect();
    for place in
        ["status", "harness.retry.cause", "harness.approval.reason", "gen_ai.input.messages"]
    {
        assert!(texts.iter().any(|(at, text)| at == place && text.contains(SAID)), "{place}");
    }
    assert!(spans.iter().all(|span| span.name.len() < 256));
}

/// The labels of what is measured, with their values.
fn labels(
    metrics: &opentelemetry_sdk::metrics::InMemoryMetricExporter,
) -> HashSet<(String, String)> {
    let mut labels = HashSet::new();
    let mut add = |pairs: &mut dyn Iterator<Item = &opentelemetry::KeyValue>| {
        labels.extend(pairs.map(|pair| (pair.key.to_string(), pair.value.to_string())));
    };
    for all in metrics.get_finished_metrics().expect("metrics") {
        for metric in all.scope_metrics().flat_map(|of| of.metrics()) {
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(of)) => {
                    of.data_points().for_each(|point| add(&mut point.attributes()));
                }
                AggregatedMetrics::U64(MetricData::Histogram(of)) => {
                    of.data_points().for_each(|point| add(&mut point.attributes()));
                }
                AggregatedMetrics::U64(MetricData::Sum(of)) => {
                    of.data_points().for_each(|point| add(&mut point.attributes()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    labels
}

/// A server that names another model in each answer does not make a metric for each.
#[test]
fn models_of_answers_are_told_apart_up_to_a_limit() {
    let _alone = alone();
    let ((spans, exporter), (meters, metrics)) = (exporters(), readers());
    opentelemetry::global::set_meter_provider(meters.clone());
    let (runtime, _listening) = watched(&spans);
    let replies = (0..200).map(|number| {
        let model = Some(format!("model-{number}"));
        reply().event(StreamEvent::Started { id: None, model }).text("Yes.").tokens(1, 1)
    });
    let model = ScriptedProvider::new(replies);
    let agent = Agent::builder(model).build().expect("an agent");
    runtime.block_on(async {
        for _ in 0..200 {
            agent.run("Well?").await.expect("an answer");
        }
    });
    meters.force_flush().expect("exported");
    let labels = labels(&metrics);
    let models = |labels: &HashSet<(String, String)>| {
        labels.iter().filter(|(name, _)| name == "gen_ai.response.model").count()
    };
    assert!((2..=101).contains(&models(&labels)), "{}", models(&labels));
    assert!(labels.contains(&("gen_ai.response.model".to_owned(), "_OTHER".to_owned())));
    let spans = exporter.get_finished_spans().expect("spans");
    let of_spans = spans.iter().flat_map(|span| &span.attributes);
    let of_spans: HashSet<_> =
        of_spans.map(|pair| (pair.key.to_string(), Value::to_string(&pair.value))).collect();
    assert!(models(&of_spans) <= 101);
    opentelemetry::global::set_meter_provider(NoopMeterProvider::new());
}
