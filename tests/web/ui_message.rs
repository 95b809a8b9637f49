//! The UI message stream, read by the real client of the AI SDK.

use crate::{
    answers::{book, remove},
    events,
    history::loaded,
    node,
    server::Server,
};
use harness::{
    Agent, ToolContent, ToolResult,
    agent::Numbered,
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
    web::ui_message::UiMessageStream,
};
use serde_json::{Value, json};

/// Works out a product.
#[tool(side_effects = "none")]
pub(crate) fn multiply(
    /** First */
    a: i64,
    /** Second */
    b: i64,
) -> i64 {
    a * b
}

pub(crate) fn encoded(mut stream: UiMessageStream, events: &[Numbered]) -> String {
    events.iter().map(|event| stream.encode(event)).collect()
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "name": "look", "arguments": arguments})
}

fn result(id: &str, outcome: &str, text: &str) -> Value {
    let outcome = serde_json::from_value(json!(outcome)).expect("an outcome");
    let content = [ToolContent::Text(text.to_owned())];
    let result = ToolResult::new(id, outcome, content).with_value(json!("hidden"));
    serde_json::to_value(result).expect("JSON")
}

/// Every kind of event, with what must not be shown marked by the word `hidden`.
pub(crate) fn every_kind() -> Vec<Value> {
    let usage = serde_json::to_value(harness::Usage::default()).expect("JSON");
    let said = serde_json::to_value(harness::Message::user("Go.")).expect("JSON");
    let approval = json!({"for": "approval", "repeat": "never", "question": {"nonce": "n1",
        "conversation": "hidden", "folder": "/hidden", "person": "hidden", "call": "c3", "tool": "look", "fingerprint": "hidden",
        "reasons": [{"by": {"decider": "side_effects"}, "text": "It changes something."}], "defaults": {"days": 3}}});
    let form = json!({"for": "answer", "question": "Which day?", "token": "hidden",
        "form": {"type": "object"}});
    let path = json!([{"tool": "ask", "call": "c2"}]);
    vec![
        json!({"type": "run_started", "said": said}),
        json!({"type": "turn_started", "turn": 1}),
        json!({"type": "retrying", "attempt": 2, "of": 3, "wait_ms": 5, "cause": "hidden"}),
        json!({"type": "falling_back", "from": "hidden", "to": "hidden", "cause": "hidden"}),
        json!({"type": "parameter_dropped", "parameter": "hidden", "cause": "hidden"}),
        json!({"type": "text", "text": "void"}),
        json!({"type": "tool_call_start", "call": "c1", "tool": "look"}),
        json!({"type": "tool_call_delta", "call": "c1", "json": "{\"vo"}),
        json!({"type": "tool_call", "call": call("c0", "{}")}),
        json!({"type": "discarded", "cause": "hidden"}),
        json!({"type": "tool_dropped", "call": call("c0", "{}")}),
        json!({"type": "reasoning", "text": "Think "}),
        json!({"type": "reasoning", "text": "again."}),
        json!({"type": "text", "text": "It is "}),
        json!({"type": "text", "text": "\u{1f600} s\u{f6}\n\n"}),
        json!({"type": "text", "text": "."}),
        json!({"type": "citation", "citation": {"url": "https://a.example", "title": "A"}}),
        json!({"type": "citation", "citation": {"title": "B"}}),
        json!({"type": "image", "image": harness_media("image/png")}),
        json!({"type": "audio", "audio": harness_media("audio/wav")}),
        json!({"type": "tool_call_start", "call": "c1", "tool": "look"}),
        json!({"type": "tool_call_delta", "call": "c1", "json": "{\"a\":"}),
        json!({"type": "tool_call_start", "call": "c1", "tool": "look"}),
        json!({"type": "tool_call_delta", "call": "c1", "json": "{\"at\":"}),
        json!({"type": "tool_call_delta", "call": "c1", "json": "1}"}),
        json!({"type": "turn_ended", "turn": 1, "stop": "tool_calls", "usage": usage}),
        json!({"type": "tool_queued", "call": call("c1", "{\"at\":1}")}),
        json!({"type": "tool_call", "call": call("c1", "{\"at\":1}")}),
        json!({"type": "tool_progress", "call": "c1", "message": "half"}),
        json!({"type": "tool_result", "call": call("c1", "{\"at\":1}"), "result": result("c1", "succeeded", "seen"),
            "elapsed_ms": 4}),
        json!({"type": "tool_call", "call": call("c2", "{\"at\":")}),
        json!({"type": "of_agent", "path": path, "event": {"type": "text", "text": "below"}}),
        json!({"type": "of_agent", "path": path, "event": {"type": "tool_call", "call": call("c1", "{}")}}),
        json!({"type": "of_agent", "path": path, "event": {"type": "tool_result", "call": call("c1", "{}"),
            "result": result("c1", "failed", "broken"), "elapsed_ms": 1}}),
        json!({"type": "tool_result", "call": call("c2", "{\"at\":"), "result": result("c2", "in_doubt", "unknown"),
            "elapsed_ms": 4}),
        json!({"type": "tool_denied", "call": call("c5", "{}"), "reason": "no"}),
        json!({"type": "tool_result", "call": call("c5", "{}"), "result": result("c5", "denied", "no"), "elapsed_ms": 0}),
        json!({"type": "tools_found", "call": call("c1", "{}"), "tools": ["more"]}),
        json!({"type": "tool_ended", "tool": "old", "result": result("c9", "succeeded", "late")}),
        json!({"type": "steered", "message": said}),
        json!({"type": "limit_near", "limit": "turns", "scope": "run", "detail": "4 of 5"}),
        json!({"type": "limit_unknown", "limit": "cost", "scope": "run", "detail": "hidden"}),
        json!({"type": "context_cleared", "results": 1, "arguments": 0, "before": 9, "after": 5}),
        json!({"type": "compacting"}),
        json!({"type": "context_compacted", "messages": 3, "vendor": false, "before": 9, "after": 2}),
        json!({"type": "compaction_failed", "cause": "hidden"}),
        json!({"type": "vendor_summary_refused", "cause": "hidden"}),
        json!({"type": "turn_started", "turn": 2}),
        json!({"type": "text", "text": "More."}),
        json!({"type": "answer_rejected", "by": "schema", "faults": ["hidden"]}),
        json!({"type": "turn_ended", "turn": 2, "stop": "tool_calls", "usage": usage}),
        json!({"type": "tool_waits", "call": call("c3", "{\"at\":3}"), "wait": approval}),
        json!({"type": "tool_waits", "call": call("c4", "{}"), "wait": form}),
        json!({"type": "of_agent", "path": path, "event":
            {"type": "tool_waits", "call": call("c3", "{}"), "wait": approval}}),
        json!({"type": "of_a_later_version", "what": "hidden"}),
        json!({"type": "run_ended", "outcome": "waiting", "usage": usage}),
        json!({"type": "text", "text": "of the next run"}),
    ]
}

fn harness_media(mime: &str) -> Value {
    serde_json::to_value(harness::Media::from_bytes(mime, [1, 2, 3])).expect("JSON")
}

/// The same events, as a watcher gets them who comes late: neighbouring pieces are one.
fn joined(all: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in all {
        let member = match event["type"].as_str() {
            Some("text" | "reasoning") => "text",
            Some("tool_call_delta") => "json",
            _ => "",
        };
        let last = joined.last_mut().filter(|last| {
            !member.is_empty() && last["type"] == event["type"] && last["call"] == event["call"]
        });
        match last {
            Some(last) => {
                let words = format!(
                    "{}{}",
                    last[member].as_str().unwrap(),
                    event[member].as_str().unwrap()
                );
                last[member] = json!(words);
            }
            None => joined.push(event.clone()),
        }
    }
    joined
}

/// What a client reads of streams.
pub(crate) fn read(streams: &[String]) -> Option<Vec<Value>> {
    let read = node("client.mjs", &json!({"act": "streams", "streams": streams}))?;
    Some(read["out"].as_array().expect("a list").clone())
}

#[test]
fn every_event_in_the_list_is_known_and_none_shows_what_is_hidden() {
    let all = events(&every_kind());
    let unknown: Vec<_> = all
        .iter()
        .filter(|it| matches!(it.event.as_event(), harness::Event::Unknown { .. }))
        .map(|it| serde_json::to_value(it).expect("JSON")["type"].clone())
        .collect();
    assert_eq!(unknown, ["of_a_later_version"]);
    let text = encoded(UiMessageStream::new(), &all);
    assert!(!text.contains("hidden"), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("of the next run"), "{text}");
    let silent = encoded(UiMessageStream::new().without_reasoning(), &all);
    assert!(!silent.contains("reasoning-") && !silent.contains("Think"), "{silent}");
}

#[test]
fn the_client_reads_every_kind_of_event() {
    let all = events(&every_kind());
    let Some(out) = read(&[
        encoded(UiMessageStream::new(), &all),
        encoded(UiMessageStream::new().for_version_6(), &all),
    ]) else {
        return;
    };
    let is_7 =
        node("client.mjs", &json!({"act": "streams", "streams": []})).expect("node")["version"]
            .as_str()
            .is_some_and(|it| it.starts_with('7'));
    for (read, takes_back) in out.iter().zip([true, false]) {
        if takes_back && !is_7 {
            continue;
        }
        assert_eq!(read["error"], Value::Null, "{read:#}");
        let message = &read["message"];
        assert!(message["id"].as_str().expect("an id").starts_with("answer-"), "{message:#}");
        assert_eq!(message["metadata"]["outcome"], "waiting");
        let parts = message["parts"].as_array().expect("parts");
        let void = parts.iter().any(|part| part["text"] == "void");
        assert_eq!(void, !takes_back, "{parts:#?}");
        let with = |name: &str, value: &str| {
            parts
                .iter()
                .find(|part| part[name] == value)
                .unwrap_or_else(|| panic!("{value}: {parts:#?}"))
        };
        assert_eq!(with("text", "Think again.")["type"], "reasoning");
        assert_eq!(with("text", "It is \u{1f600} s\u{f6}\n\n.")["state"], "done");
        assert_eq!(with("type", "source-url")["url"], "https://a.example");
        assert_eq!(with("type", "file")["url"], "data:image/png;base64,AQID");
        let c1 = with("toolCallId", "c1");
        assert_eq!(
            (&c1["state"], &c1["input"], &c1["output"]),
            (&json!("output-available"), &json!({"at": 1}), &json!("seen"))
        );
        assert_eq!(with("toolCallId", "c2")["state"], "output-error");
        assert_eq!(with("toolCallId", "c2/c1")["errorText"], "broken");
        assert_eq!(with("toolCallId", "c5")["state"], "output-denied");
        let c3 = with("toolCallId", "c3");
        assert_eq!(
            (&c3["state"], &c3["approval"]["id"]),
            (&json!("approval-requested"), &json!("n1"))
        );
        assert_eq!(with("toolCallId", "c2/c3")["state"], "approval-requested");
        let waiting = with("id", "waiting-c4");
        assert_eq!(
            (&waiting["data"]["question"], &waiting["data"]["for"]),
            (&json!("Which day?"), &json!("answer"))
        );
        assert_eq!(with("id", "waiting-c3")["data"]["defaults"]["days"], 3);
    }
}

/// The whole events of a text that was cut.
fn whole_events(text: &str) -> (&str, Option<&str>) {
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
    let mut ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
    (whole, ids.next_back())
}

#[test]
fn a_stream_that_is_cut_at_any_byte_goes_on_after_its_last_event() {
    let every_kind = every_kind();
    let (all, late) = (events(&every_kind), events(&joined(&every_kind)));
    assert!(late.len() < all.len() - 3);
    let mut streams = Vec::new();
    for (first, then) in [(&all, &late), (&late, &all), (&all, &all)] {
        let whole = encoded(UiMessageStream::new(), first);
        let mut before = 0;
        for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
            let (had, id) = whole_events(&whole[..cut]);
            if cut > 0 && had.len() == before {
                continue;
            }
            before = had.len();
            let rest = encoded(UiMessageStream::after(id.unwrap_or_default()), then);
            let both = format!("{had}{rest}");
            streams.push(both);
        }
    }
    // What it comes to without a client: all that lasts is there once and in order.
    let lasting = |text: &str| {
        let chunks = text.lines().filter_map(|line| line.strip_prefix("data: {"));
        let mut all: Vec<Value> = Vec::new();
        for chunk in
            chunks.map(|it| serde_json::from_str::<Value>(&format!("{{{it}")).expect("JSON"))
        {
            if chunk["transient"] == true {
                continue;
            }
            let member = if chunk["delta"].is_string() { "delta" } else { "inputTextDelta" };
            match all
                .last_mut()
                .filter(|last| chunk[member].is_string() && last["type"] == chunk["type"])
            {
                Some(last) => {
                    let words = format!(
                        "{}{}",
                        last[member].as_str().unwrap(),
                        chunk[member].as_str().unwrap()
                    );
                    last[member] = json!(words);
                }
                None => all.push(chunk),
            }
        }
        all
    };
    let expected = lasting(&encoded(UiMessageStream::new(), &all));
    for stream in &streams {
        assert_eq!(lasting(stream), expected, "{stream}");
    }
    streams.truncate(60);
    let Some(out) = read(&streams) else { return };
    for one in &out {
        assert_eq!(one["message"], out[0]["message"]);
        assert_eq!(one["error"], out[0]["error"]);
    }
}

#[test]
fn an_id_of_no_place_in_the_run_begins_with_the_run() {
    let all = events(&every_kind());
    let whole = encoded(UiMessageStream::new(), &all);
    for id in ["", "run_2/3.4", "run_1", "run_1/3", "run_1/x.y", "run_1/-1.0", "/", "\u{f6}/1.1"] {
        assert_eq!(encoded(UiMessageStream::after(id), &all), whole, "{id}");
    }
    // And one behind the end, or within a character, is no panic.
    for id in
        ["run_1/99999.99999", "run_1/18446744073709551615.18446744073709551615", "run_1/12.31"]
    {
        encoded(UiMessageStream::after(id), &all);
    }
}

#[test]
fn an_end_tells_how_the_run_has_ended() {
    let usage = serde_json::to_value(harness::Usage::default()).expect("JSON");
    let end = |outcome: Value| {
        let all = [
            json!({"type": "run_started"}),
            json!({"type": "run_ended", "outcome": outcome, "usage": usage, "reason": "It broke."}),
        ];
        encoded(UiMessageStream::new(), &events(&all))
    };
    let ends = [
        (json!("answered"), "stop", false),
        (json!("truncated"), "length", false),
        (json!("refused"), "content-filter", false),
        (json!("unfit"), "error", false),
        (json!("cancelled"), "other", false),
        (json!({"limit": "turns"}), "other", false),
        (json!("failed"), "error", true),
    ];
    let streams: Vec<String> = ends.iter().map(|(outcome, ..)| end(outcome.clone())).collect();
    let Some(out) = read(&streams) else { return };
    for (one, (outcome, reason, failed)) in out.iter().zip(&ends) {
        let finish =
            one["chunks"].as_array().unwrap().iter().find(|it| it["type"] == "finish").unwrap();
        assert_eq!(finish["finishReason"], *reason, "{outcome}");
        assert_eq!(one["error"].is_string(), *failed, "{one}");
        assert_eq!(finish["messageMetadata"]["reason"], "It broke.", "{outcome}");
        assert!(
            !failed || one["error"].as_str().is_some_and(|it| it.contains("It broke.")),
            "{one}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn use_chat_talks_with_a_server() {
    let model = ScriptedProvider::new([
        reply().text_in(["I ", "count."]).call("multiply", json!({"a": 17, "b": 23})),
        reply().text("It is 391."),
        reply().text("You are welcome."),
    ]);
    let server = Server::start(model, tools![multiply]).await;
    let steps = json!([{"say": "What is 17 * 23?"}, {"say": "Thanks."}]);
    let Some(out) = chat(&server, steps).await else { return };
    assert_eq!((&out["status"], &out["error"]), (&json!("ready"), &Value::Null), "{out:#}");
    let messages = out["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 4, "{out:#}");
    let tool =
        messages[1]["parts"].as_array().unwrap().iter().find(|it| it["type"] == "tool-multiply");
    assert_eq!(tool.expect("a call")["output"], 391, "{out:#}");
    assert_eq!(server.inbox.look("c").await.unwrap().transcript().messages().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_approvals_in_one_message_are_answered_and_each_call_runs_once() {
    let model = ScriptedProvider::new([
        reply().call("remove", json!({"name": "a"})).call("remove", json!({"name": "b"})),
        reply().text("Done."),
    ]);
    let server = Server::start(model, tools![remove]).await;
    let steps = json!([{"say": "Remove."}, {"decide": [true, false], "reason": "keep it"}]);
    let Some(out) = chat(&server, steps).await else { return };
    assert_eq!((&out["status"], &out["error"]), (&json!("ready"), &Value::Null), "{out:#}");
    assert_eq!(out["requests"], 2, "{out:#}");
    let messages = out["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 2, "{out:#}");
    let parts = messages[1]["parts"].as_array().expect("parts");
    let tools: Vec<&Value> = parts.iter().filter(|it| it["type"] == "tool-remove").collect();
    assert_eq!(tools.len(), 2, "{parts:#?}");
    assert_eq!(
        (&tools[0]["state"], &tools[0]["output"]),
        (&json!("output-available"), &json!("removed a"))
    );
    assert_eq!(tools[1]["state"], "output-denied");
    assert!(parts.iter().any(|it| it["text"] == "Done."), "{parts:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_a_tool_is_answered_in_the_page() {
    let model = ScriptedProvider::new([reply().call("book", json!({})), reply().text("Done.")]);
    let server = Server::start(model, tools![book]).await;
    let steps = json!([{"say": "Book."}, {"answer": "Monday"}]);
    let Some(out) = chat(&server, steps).await else { return };
    assert_eq!((&out["status"], &out["error"]), (&json!("ready"), &Value::Null), "{out:#}");
    let parts = out["messages"][1]["parts"].as_array().expect("parts");
    let tool = parts.iter().find(|it| it["type"] == "tool-book").expect("a call");
    assert_eq!(tool["output"], "booked \"Monday\"", "{out:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_loaded_again_sees_the_whole_run() {
    let gate = Gate::new();
    let model = reply().text_in(["Once ", "upon "]).wait_for(&gate).text_in(["a time."]);
    let server = Server::start(ScriptedProvider::new([model]), tools![]).await;
    let none = chat(&server, json!([{"resume": true}])).await;
    if let Some(out) = none {
        assert_eq!((&out["status"], &out["messages"]), (&json!("ready"), &json!([])), "{out:#}");
    }
    let run = server.chats.send("c", "Tell.").await.expect("a run");
    let watched = server.watched.clone();
    let open = tokio::spawn(async move {
        watched.notified().await;
        gate.open();
    });
    if let Some(out) = chat(&server, json!([{"resume": true}])).await {
        assert_eq!((&out["status"], &out["error"]), (&json!("ready"), &Value::Null), "{out:#}");
        let parts = out["messages"][0]["parts"].as_array().expect("parts");
        assert!(parts.iter().any(|it| it["text"] == "Once upon a time."), "{out:#}");
    }
    server.watched.notify_one();
    open.await.expect("opened");
    run.finish().await.expect("an answer");
}

/// What the guide tells a page to send answers by.
fn of_the_guide() -> &'static str {
    let guide = include_str!("../../harness/guide/web.md");
    let (_, code) = guide.split_once("```js\n").expect("code");
    let code = code.split_once("```").expect("an end").0;
    let page = include_str!("../../examples/service/tests/react.jsx");
    assert!(page.contains(code), "the page in React has it, too: {code}");
    code
}

/// A conversation of the real client that sends answers by itself, and its calls in the end.
async fn answers(server: &Server, messages: Value, steps: Value, requests: u64) -> Option<Value> {
    let command = json!({"act": "chat", "api": server.api(), "id": "c", "steps": steps, "messages": messages,
        "sends": of_the_guide()});
    let out = tokio::task::spawn_blocking(move || node("client.mjs", &command)).await;
    let out = out.expect("node")?;
    assert_eq!((&out["status"], &out["error"]), (&json!("ready"), &Value::Null), "{out:#}");
    assert_eq!(out["requests"], requests, "{out:#}");
    let parts = out["messages"][1]["parts"].as_array().expect("parts");
    for call in parts.iter().filter(|part| part["toolCallId"].is_string()) {
        assert_eq!(call["state"], "output-available", "{out:#}");
    }
    assert!(parts.iter().any(|part| part["text"] == "Done."), "{out:#}");
    Some(out)
}

/// A server whose agent asks another one, which removes two notes, one after the other.
async fn asks_an_agent() -> Server {
    let below = ScriptedProvider::new([
        reply().call_with_id("x", "remove", json!({"name": "a"})),
        reply().call_with_id("y", "remove", json!({"name": "b"})),
        reply().text("They are gone."),
    ]);
    let below = Agent::builder(below).tools(tools![remove]).build().expect("an agent");
    let model = ScriptedProvider::new([
        reply().call("ask", json!({"task": "Remove them."})),
        reply().text("Done."),
    ]);
    Server::start(model, [below.as_tool("ask", "Removes.")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_of_the_calls_of_an_agent_are_sent_by_the_page_and_used() {
    let approves = json!({"decide": [true]});
    let server = asks_an_agent().await;
    let steps = json!([{"say": "Remove them."}, approves, approves]);
    let Some(out) = answers(&server, json!([]), steps, 3).await else { return };
    let parts = out["messages"][1]["parts"].as_array().expect("parts");
    let ask = parts.iter().find(|it| it["type"] == "tool-ask").expect("a call");
    assert_eq!(ask["output"], "They are gone.", "{out:#}");
    // And by a page that is loaded again while the call waits.
    let server = asks_an_agent().await;
    let run = server.chats.send("c", "Remove them.").await.expect("a run");
    run.finish().await.expect_err("a call waits");
    let messages = json!(loaded(&server.chats).await);
    answers(&server, messages, json!([approves, approves]), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_sent_by_the_page_also_while_other_calls_wait() {
    for skip in [0, 1] {
        let model = ScriptedProvider::new([
            reply()
                .call_with_id("a", "remove", json!({"name": "a"}))
                .call_with_id("b", "remove", json!({"name": "b"}))
                .call_with_id("c", "multiply", json!({"a": 2, "b": 2}))
                .call_with_id("d", "book", json!({})),
            reply().text("Done."),
        ]);
        let server = Server::start(model, tools![remove, book, multiply]).await;
        let steps = json!([{"say": "Remove."}, {"decide": [true], "skip": skip}, {"decide": [true]},
            {"answer": null}]);
        let Some(out) = answers(&server, json!([]), steps, 4).await else { return };
        let parts = out["messages"][1]["parts"].as_array().expect("parts");
        let book = parts.iter().find(|it| it["type"] == "tool-book").expect("a call");
        assert_eq!(book["output"], "booked null", "{out:#}");
    }
}

/// A conversation of the real client with this server.
async fn chat(server: &Server, steps: Value) -> Option<Value> {
    let command = json!({"act": "chat", "api": server.api(), "id": "c", "steps": steps});
    tokio::task::spawn_blocking(move || node("client.mjs", &command)).await.expect("node")
}
