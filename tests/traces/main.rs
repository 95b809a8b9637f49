//! What is made of traces: pages, traces of conversations in journals, and the first difference of two traces.

mod browser;
mod difference;
mod page;
mod past;

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, SideEffect, SideEffects, Tool,
    journal::MemoryJournal,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
    tool::ToolError,
    trace::{self, Trace, TraceEvent},
};
use serde_json::{Value, json};

/// What a trace has written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event of the run `r`.
fn event(at_us: u64, what: Value) -> TraceEvent {
    event_of("r", at_us, what)
}

fn event_of(run: &str, at_us: u64, what: Value) -> TraceEvent {
    let mut event = json!({"v": 1, "run": run, "at_us": at_us});
    event.as_object_mut().expect("a map").extend(what.as_object().expect("a map").clone());
    serde_json::from_value(event).expect("an event")
}

/// An answer of the model with these calls of `look`, by their ids and arguments.
fn replied(turn: u32, text: &str, calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(call, arguments)| {
            json!({"call": call, "tool": "look", "arguments": arguments.to_string()})
        })
        .collect();
    json!({"event": "model_replied", "turn": turn, "text": text, "calls": calls, "stop": "complete",
        "usage": {"input": 1200, "output": 34, "cache_read": 1000}, "context": {"system": 200, "history": 1000},
        "provider": "anthropic", "model": "claude-sonnet-5"})
}

fn started(run: &str, said: &str) -> Value {
    json!({"event": "run_started", "unix_ms": 1_767_225_600_000_u64, "provider": "p", "model": "m",
        "tools": [], "said": said, "journaled": run})
}

fn finished(call: &str, outcome: &str, text: &str) -> Value {
    json!({"event": "call_finished", "call": call, "outcome": outcome, "text": text, "ran_us": 400})
}

/// A tool that takes this time.
fn tool(
    name: &'static str,
    effect: SideEffect,
    millis: u64,
    result: Result<Value, &'static str>,
) -> Tool {
    let schema = json!({"type": "object", "additionalProperties": true});
    Tool::new(name, "Does its work.", schema, SideEffects::of(&[effect]), move |_, _| {
        let result = result.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            result.map(|value| value.to_string().into()).map_err(ToolError::new)
        })
    })
}

/// Something of everything: calls that begin early, fail and wait, an agent in a call, an answer from elsewhere. The
/// conversation is `chat` of the journal. The name of the city is the only thing that differs.
async fn story(city: &'static str) -> (Vec<TraceEvent>, MemoryJournal, Agent) {
    let wait = Duration::from_millis;
    let reader = ScriptedProvider::new([
        reply().call("fetch", json!({"page": 1})).call("fetch", json!({"page": 2})).tokens(300, 12),
        reply().text("The policy allows returns within thirty days.").tokens(420, 18),
    ]);
    let paper = Paper::default();
    let trace = Trace::default().to_writer(paper.clone());
    let reader = Agent::builder(reader)
        .trace(trace.clone())
        .tools([tool("fetch", SideEffect::Read, 25, Err("page 1 is not there"))])
        .build()
        .expect("an agent");
    let model = ScriptedProvider::new([
        reply()
            .pause(wait(120))
            .reasoning("The orders first, and the policy beside them.")
            .text("Let me look.")
            .call("search_orders", json!({"email": "a@b.com", "city": city, "limit": 10}))
            .call("weather", json!({"city": city}))
            .pause(wait(90))
            .call("reader", json!({"task": "What is the policy on returns?"}))
            .tokens(820, 64),
        reply()
            .pause(wait(60))
            .text("One of them can be refunded.")
            .call("refund", json!({"order": 1021, "cents": 4900}))
            .tokens(1410, 42),
        reply().pause(wait(40)).text("Order 1021 is refunded.").tokens(1490, 12),
    ]);
    let orders =
        json!({"orders": [{"id": 1021, "total": 49.0, "city": city}, {"id": 1044, "total": 12.5}]});
    let agent = Agent::builder(model)
        .trace(trace.clone())
        .tools([
            tool("search_orders", SideEffect::Read, 84, Ok(orders)),
            tool("weather", SideEffect::Read, 30, Err("the service has no such city")),
            tool("refund", SideEffect::Mutate, 20, Ok(json!({"refunded": 1021}))),
            reader.as_tool("reader", "Reads."),
        ])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.send("What can I still return?").await.expect_err("it waits");
    drop(chat);
    tokio::time::sleep(wait(200)).await;
    let inbox = agent.inbox(&journal);
    let open = inbox.waiting("chat").await.expect("calls");
    let question = open[0].question().expect("a question");
    inbox.decide("chat", question.yes().by("ada")).await.expect("it waits");
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.resume().await.expect("an answer");
    assert!(trace.flush(Duration::from_secs(30)), "{:?}", trace.problem());
    let lines = String::from_utf8(paper.0.lock().expect("unpoisoned").clone()).expect("UTF-8");
    (trace::read(&lines).expect("events"), journal, agent)
}
