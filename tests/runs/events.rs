//! Kept events: owned, numbered, written as JSON, and read as a stream.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use harness::{
    Agent, CallOutcome, ErrorKind, Media, Message, Outcome, StopReason, ToolCall, ToolContent,
    ToolResult, Usage,
    agent::{AgentCall, Event, EventBuf, Numbered},
    journal::{AnswerCheck, Awaited, LimitKind, LimitScope, Wait},
    message::{Citation, VendorData},
    policy::BudgetUsage,
    provider::WantedItem,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::{Map, Value, json};

/// Adds.
#[tool(side_effects = "none")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

fn adding() -> ScriptedProvider {
    ScriptedProvider::new([
        reply().reasoning("Hm.").text("Let me ").text("see.").call("add", json!({"a": 1, "b": 2})),
        reply().text("It is ").text("3."),
    ])
}

/// One event of each kind.
fn all() -> Vec<EventBuf> {
    let call = &ToolCall::new("call_1", "add", r#"{"a": 1}"#);
    let content = [ToolContent::Text("3".to_owned()), ToolContent::Json(json!({"n": 1.5}))];
    let result = &ToolResult::new("call_1", CallOutcome::Succeeded, content);
    let usage = &Usage { input: Some(3), output: Some(7), ..Usage::default() };
    let mut citation = Citation::default();
    citation.url = Some("https://example.org".to_owned());
    let approval = Awaited::Approval {
        question: json!({"tool": "add"}),
        repeat: harness::journal::Repeat::Never,
        review: None,
    };
    let wait = &Wait::new(approval).until(Some(17));
    let (elapsed, wait_for) = (Duration::from_millis(12), Duration::from_millis(1500));
    let (limit, scope, detail) = (LimitKind::Turns, LimitScope::Agent, "9 of 10");
    let usages = (Outcome::Limit(LimitKind::Cost), Outcome::Unsupported(WantedItem::new("drill")));
    let path: Vec<AgentCall> =
        serde_json::from_value(json!([{"tool": "ask", "call": "call_1"}])).unwrap();
    let unknown = BudgetUsage::default();
    let spent = BudgetUsage { turns: 2, usage: *usage, usage_is_whole: true, ..unknown };
    let spent = BudgetUsage { cost: Some(0.25), known_cost: 0.25, ..spent };
    let events = [
        Event::RunStarted { said: Some(&Message::user("Hello")) },
        Event::RunStarted { said: None },
        Event::TurnStarted { turn: 1 },
        Event::Retrying { attempt: 2, of: 3, wait: wait_for, cause: "529" },
        Event::FallingBack { from: "a", to: "b", cause: "down" },
        Event::ParameterDropped { parameter: "store", cause: "400: unknown parameter" },
        Event::Discarded { cause: "cut \"off\"\n" },
        Event::Text("words \u{1f980}"),
        Event::Citation(&citation),
        Event::Image(&Media::from_url("https://example.org/a.png")),
        Event::Audio(&Media::from_bytes("audio/wav", b"RIFF")),
        Event::Reasoning("hm"),
        Event::ToolDenied { call, reason: "no" },
        Event::ToolQueued(call),
        Event::ToolCall(call),
        Event::ToolCallStart { call: "call_1", tool: "add" },
        Event::ToolCallDelta { call: "call_1", json: "{\"a\":" },
        Event::ToolWaits { call, wait },
        Event::ToolProgress { call: "call_1", message: "half" },
        Event::ToolResult { call, result, elapsed },
        Event::ToolDropped { call },
        Event::ToolEnded { tool: "add", result },
        Event::Steered { message: &Message::user("Only the first.") },
        Event::AnswerRejected {
            by: AnswerCheck::Schema,
            faults: &["`/year` is missing".to_owned()],
            message: Some(&Message::user("Answer again.")),
        },
        Event::AnswerRejected { by: AnswerCheck::Verifier, faults: &[], message: None },
        Event::LimitNear { limit, scope, detail },
        Event::LimitUnknown { limit, scope, detail },
        Event::ToolsFound { call, tools: &["jira__list_invoice".to_owned()] },
        Event::ContextCleared { results: 3, arguments: 0, before: 900, after: 400 },
        Event::ContextCleared { results: 0, arguments: 2, before: 900, after: 400 },
        Event::Compacting,
        Event::ContextCompacted { messages: 12, vendor: false, before: 900, after: 400 },
        Event::ContextCompacted { messages: 24, vendor: true, before: 900, after: 400 },
        Event::CompactionFailed { cause: "it frees too little" },
        Event::VendorSummaryRefused { cause: "it is bound to another conversation" },
        Event::TurnEnded { turn: 1, stop: StopReason::ToolCalls, usage },
        Event::OfAgent { path: &path, event: &Event::Text("Below.").into_owned() },
        Event::RunEnded { outcome: Outcome::Answered, usage, spent: &spent, reason: None },
        Event::RunEnded { outcome: usages.0, usage, spent: &unknown, reason: Some("no") },
        Event::RunEnded { outcome: usages.1, usage, spent: &spent, reason: None },
        Event::RunEnded { outcome: Outcome::Unfit, usage, spent: &spent, reason: None },
    ];
    events.into_iter().map(Event::into_owned).collect()
}

#[test]
fn each_event_is_read_back_from_its_json() {
    let all = all();
    let mut kinds = Vec::new();
    for event in &all {
        let json = serde_json::to_value(event).unwrap();
        assert_eq!(json, serde_json::to_value(event.as_event()).unwrap(), "borrowed and owned");
        let kind = json["type"].as_str().unwrap();
        assert!(kind.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{kind}");
        kinds.push(kind.to_owned());
        let again: EventBuf = serde_json::from_str(&json.to_string()).unwrap();
        assert!(!matches!(again.as_event(), Event::Unknown { .. }), "{json}");
        assert_eq!(&again, event);
        assert_eq!(format!("{again:?}"), format!("{event:?}"));
    }
    kinds.dedup();
    assert_eq!(kinds.len(), 34, "an event of each kind: {kinds:?}");
}

#[test]
fn the_json_of_events_stays_as_it_is() {
    let lines: Vec<String> = all().iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    let mut first: Map<String, Value> = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(first.remove("said").unwrap()["blocks"][0]["text"], "Hello");
    assert_eq!(Value::Object(first), json!({"type": "run_started"}));
    let expected = [
        r#"{"type":"run_started"}"#,
        r#"{"type":"turn_started","turn":1}"#,
        r#"{"type":"retrying","attempt":2,"of":3,"wait_ms":1500,"cause":"529"}"#,
        r#"{"type":"falling_back","from":"a","to":"b","cause":"down"}"#,
        r#"{"type":"parameter_dropped","parameter":"store","cause":"400: unknown parameter"}"#,
        r#"{"type":"discarded","cause":"cut \"off\"\n"}"#,
        "{\"type\":\"text\",\"text\":\"words \u{1f980}\"}",
        r#"{"type":"citation","citation":{"url":"https://example.org"}}"#,
        r#"{"type":"image","image":{"url":"https://example.org/a.png"}}"#,
        r#"{"type":"audio","audio":{"mime":"audio/wav","data":"UklGRg=="}}"#,
        r#"{"type":"reasoning","text":"hm"}"#,
        r#"{"type":"tool_denied","call":{"id":"call_1","name":"add","arguments":"{\"a\": 1}"},"reason":"no"}"#,
        r#"{"type":"tool_queued","call":{"id":"call_1","name":"add","arguments":"{\"a\": 1}"}}"#,
        r#"{"type":"tool_call","call":{"id":"call_1","name":"add","arguments":"{\"a\": 1}"}}"#,
    ];
    assert_eq!(&lines[1..=expected.len()], expected);
    let last = &lines[lines.len() - 4..];
    let expected = [
        r#"{"type":"run_ended","outcome":"answered","usage":{"input":3,"output":7},"spent":{"turns":2,"tool_calls":0,"usage":{"input":3,"output":7},"usage_is_whole":true,"cost":0.25,"known_cost":0.25}}"#,
        r#"{"type":"run_ended","outcome":{"limit":"cost"},"usage":{"input":3,"output":7},"spent":{"turns":0,"tool_calls":0,"usage":{},"usage_is_whole":false,"known_cost":0.0},"reason":"no"}"#,
        r#"{"type":"run_ended","outcome":{"unsupported":"drill"},"usage":{"input":3,"output":7},"spent":{"turns":2,"tool_calls":0,"usage":{"input":3,"output":7},"usage_is_whole":true,"cost":0.25,"known_cost":0.25}}"#,
        r#"{"type":"run_ended","outcome":"unfit","usage":{"input":3,"output":7},"spent":{"turns":2,"tool_calls":0,"usage":{"input":3,"output":7},"usage_is_whole":true,"cost":0.25,"known_cost":0.25}}"#,
    ];
    assert_eq!(last, expected);
}

#[test]
fn what_a_later_version_writes_is_kept_and_not_an_error() {
    let later = [
        // A kind, a value and a form of a known kind that this version does not know.
        r#"{"type":"thunder","distance":3}"#,
        r#"{"type":"limit_near","limit":"thunder","scope":"run","detail":"x"}"#,
        r#"{"type":"text","words":["a"]}"#,
    ];
    for json in later {
        let event: EventBuf = serde_json::from_str(json).unwrap();
        assert!(matches!(event.as_event(), Event::Unknown { .. }), "{json}");
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
        let numbered = format!(r#"{{"v":2,"run":"r","number":4,"more":1,{}"#, &json[1..]);
        let numbered: Numbered = serde_json::from_str(&numbered).unwrap();
        assert_eq!((&*numbered.run, numbered.number), ("r", 4));
    }
    let earlier = r#"{"type":"run_ended","outcome":"answered","usage":{}}"#;
    let event: EventBuf = serde_json::from_str(earlier).unwrap();
    let Event::RunEnded { spent, .. } = event.as_event() else { panic!("{event:?}") };
    assert_eq!(*spent, BudgetUsage::default(), "an earlier version tells nothing of it");
    let text = r#"{"type":"text","text":"a","more":[1]}"#;
    let event: EventBuf = serde_json::from_str(text).unwrap();
    assert!(matches!(event.as_event(), Event::Text("a")), "members that are new are passed over");
    for json in ["{}", "[]", "3", r#"{"type":3}"#] {
        assert!(serde_json::from_str::<EventBuf>(json).is_err(), "{json}");
    }
    for json in [r#"{"type":"text","text":"a","run":"r"}"#, r#"{"run":"r","number":1}"#] {
        assert!(serde_json::from_str::<Numbered>(json).is_err(), "{json}");
    }
}

#[test]
fn what_a_vendor_has_added_to_a_call_is_read_back() {
    let vendor = VendorData::new("anthropic", r#"{"n":1.0,"b":[1,{"c":null}]}"#).unwrap();
    let call = ToolCall::new("a", "b", "{}").with_vendor(Some(vendor));
    let event = Event::ToolCall(&call).into_owned();
    let json = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<EventBuf>(&json).unwrap(), event);
}

#[tokio::test]
async fn a_stream_has_each_event_that_on_event_sees_numbered_from_one() {
    let agent = Agent::builder(adding()).tools(tools![add]).build().unwrap();
    let seen = Mutex::new(Vec::new());
    let sent = agent.run("Add.").on_event(|event| seen.lock().unwrap().push(event.into_owned()));
    let mut events = sent.events();
    let mut taken = Vec::new();
    while let Some(numbered) = events.next().await {
        taken.push(numbered);
    }
    assert_eq!(events.next().await, None, "it stays at its end");
    assert_eq!(events.finish().await.unwrap().text(), "It is 3.");
    let numbers: Vec<u64> = taken.iter().map(|it| it.number).collect();
    assert_eq!(numbers, Vec::from_iter(1..=taken.len() as u64));
    assert!(taken.iter().all(|it| it.run == taken[0].run));
    assert!(matches!(taken[0].event.as_event(), Event::RunStarted { said: Some(_) }));
    let last = taken.last().unwrap().event.as_event();
    assert!(matches!(last, Event::RunEnded { outcome: Outcome::Answered, .. }), "{last:?}");
    let events: Vec<EventBuf> = taken.into_iter().map(|it| it.event).collect();
    assert_eq!(events, *seen.lock().unwrap());
}

#[tokio::test]
async fn a_stream_that_is_not_polled_holds_up_the_run() {
    let many = (0..1000).fold(reply(), |reply, _| reply.text_in(["word "]));
    let model = ScriptedProvider::new([many]);
    let agent = Agent::builder(model).build().unwrap();
    let seen = Arc::new(Mutex::new(0));
    let sees = Arc::clone(&seen);
    let mut events = agent.run("Go.").on_event(move |_| *sees.lock().unwrap() += 1).events();
    assert_eq!(*seen.lock().unwrap(), 0, "nothing happens before it is polled");
    let mut most_ahead = 0;
    let mut taken = 0;
    while events.next().await.is_some() {
        taken += 1;
        most_ahead = most_ahead.max(*seen.lock().unwrap() - taken);
    }
    assert_eq!(taken, 1004);
    assert!(most_ahead <= 66, "{most_ahead} events ahead of who takes them");
}

#[tokio::test]
async fn dropping_a_stream_stops_the_run_and_leaves_the_conversation_whole() {
    let model =
        ScriptedProvider::new([reply().text_in(["Once upon"]).stall(), reply().text("Yes?")]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.chat();
    let mut events = chat.send("Tell.").events();
    loop {
        let event = events.next().await.unwrap();
        if matches!(event.event.as_event(), Event::Text(_)) {
            break;
        }
    }
    assert!(events.next().now_or_never().is_none(), "the model says nothing");
    drop(events);
    assert_eq!(chat.transcript().messages().len(), 2);
    assert_eq!(chat.send("Hello?").await.unwrap().text(), "Yes?");
}

#[tokio::test]
async fn finish_drives_what_is_left() {
    let agent = Agent::builder(adding()).tools(tools![add]).build().unwrap();
    let mut events = agent.run("Add.").events();
    events.next().await.unwrap();
    assert_eq!(events.finish().await.unwrap().text(), "It is 3.");
}

#[tokio::test]
async fn a_stream_tells_the_end_of_a_run_whose_watcher_panics() {
    let agent = Agent::builder(adding()).tools(tools![add]).build().unwrap();
    let watch = |event: Event<'_>| assert!(!matches!(event, Event::ToolCall(_)), "not this one");
    let mut events = agent.run("Add.").on_event(watch).events();
    let mut last = None;
    while let Some(numbered) = events.next().await {
        last = Some(numbered.event);
    }
    let last = last.unwrap();
    assert!(
        matches!(last.as_event(), Event::RunEnded { outcome: Outcome::Failed, .. }),
        "{last:?}"
    );
    let stopped = events.finish().await.unwrap_err();
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Panicked);
}
