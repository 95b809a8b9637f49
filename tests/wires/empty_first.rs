//! Some servers send `{}` as the arguments of a call before or after the real ones. No call runs with
//! the `{}`.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, State, StreamEvent,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::{Value, json};

use crate::decoded::{both_ways, named, unnamed};

fn chat(pieces: &[Value]) -> String {
    let chunk = |delta: Value, finish: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let calls = pieces.iter().map(|call| chunk(json!({"tool_calls": [call]}), Value::Null));
    let end = chunk(json!({}), json!("tool_calls"));
    unnamed(&calls.chain([end]).collect::<Vec<_>>()) + "data: [DONE]\n\n"
}

fn arguments(wire: &str, body: &str) -> Vec<String> {
    let message = both_ways(wire, body, Default::default()).answer().message.unwrap();
    message.calls().map(|call| call.arguments().to_owned()).collect()
}

const REAL: &str = r#"{"city":"Oslo"}"#;

#[test]
fn an_empty_object_stands_for_what_follows() {
    let piece = |id: Option<&str>, name: Option<&str>, text: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": text}});
    let (id, name) = (Some("a"), Some("look"));
    let cut = |from: usize, to: usize| &REAL[from..to];
    for follow in [(None, None), (id, None), (id, name), (None, name)] {
        let next = |text: &str| piece(follow.0, follow.1, text);
        let whole = chat(&[piece(id, name, "{}"), next(REAL)]);
        assert_eq!(arguments("chat", &whole), [REAL], "{follow:?}");
        let parts = chat(&[piece(id, name, "{}"), next(cut(0, 5)), next(cut(5, REAL.len()))]);
        assert_eq!(arguments("chat", &parts), [REAL], "{follow:?}");
    }
    // Another id, or another name, is another call.
    let two = chat(&[piece(id, name, "{}"), piece(Some("b"), name, REAL)]);
    assert_eq!(arguments("chat", &two), ["{}", REAL]);
    let two = chat(&[piece(id, name, "{}"), piece(id, Some("say"), REAL)]);
    assert_eq!(arguments("chat", &two), ["{}", REAL]);
}

#[test]
fn a_call_that_is_said_again_with_its_arguments_is_one_call() {
    let item = |at: u8, text: &str| {
        json!({"type": "response.output_item.done", "output_index": at, "item": {
            "type": "function_call", "call_id": "a", "name": "look", "arguments": text}})
    };
    let end = json!({"type": "response.completed", "response": {"status": "completed"}});
    let body = named(&[item(0, "{}"), item(1, REAL), end.clone()]);
    assert_eq!(arguments("responses", &body), [REAL]);
    // The other way round the second one says nothing new.
    for empty in ["", "{}", "null"] {
        let body = named(&[item(0, REAL), item(1, empty), end.clone()]);
        assert_eq!(arguments("responses", &body), [REAL], "{empty}");
    }

    let block = |at: u8, input: Value| {
        json!({"type": "content_block_start", "index": at, "content_block": {
            "type": "tool_use", "id": "a", "name": "look", "input": input}})
    };
    let stop = |at: u8| json!({"type": "content_block_stop", "index": at});
    let body = named(&[
        block(0, json!({})),
        stop(0),
        block(1, json!({"city": "Oslo"})),
        stop(1),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]);
    assert_eq!(arguments("anthropic", &body), [REAL]);
}

#[test]
fn an_empty_object_at_the_end_stands_for_what_came_before_it() {
    let item = |text: &str| json!({"type": "function_call", "call_id": "a", "name": "look", "arguments": text});
    let event = |kind: &str, name: &str, value: Value| json!({"type": kind, "output_index": 0, name: value});
    let empty = ["", "{}", " { }\n", "null"];
    let pairs = empty.iter().flat_map(|end| empty.iter().map(|last| (*end, *last)));
    for (end, last) in pairs.chain([(REAL, "{}"), ("{}", REAL), (REAL, "")]) {
        let (first, rest) = REAL.split_at(5);
        let delta = |text| event("response.function_call_arguments.delta", "delta", json!(text));
        let body = named(&[
            event("response.output_item.added", "item", item("")),
            delta(first),
            delta(rest),
            event("response.function_call_arguments.done", "arguments", json!(end)),
            event("response.output_item.done", "item", item(last)),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ]);
        assert_eq!(arguments("responses", &body), [REAL], "{end:?}, {last:?}");
    }
    // JSON in place of text.
    let mut last = item("");
    for none in [json!({}), Value::Null] {
        last["arguments"] = none;
        let body = named(&[
            event("response.output_item.added", "item", item("")),
            event("response.function_call_arguments.delta", "delta", json!(REAL)),
            event("response.output_item.done", "item", last.clone()),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ]);
        assert_eq!(arguments("responses", &body), [REAL], "{last}");
    }
}

#[test]
fn it_does_so_in_pieces_of_one_call_on_the_other_wires() {
    let (first, rest) = REAL.split_at(5);
    for empty in ["{}", " { }\n"] {
        let piece = |id: Option<&str>, name: Option<&str>, text: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": text}});
        let (id, name) = (Some("a"), Some("look"));
        for last in [(None, None), (id, None), (id, name)] {
            let body = chat(&[
                piece(id, name, first),
                piece(id, None, rest),
                piece(last.0, last.1, empty),
            ]);
            assert_eq!(arguments("chat", &body), [REAL], "{last:?} {empty}");
        }
        // Another name is another call.
        let body = chat(&[piece(id, name, REAL), piece(Some("a"), Some("list"), empty)]);
        assert_eq!(arguments("chat", &body), [REAL, empty]);

        let block = |input: Value| {
            json!({"type": "content_block_start", "index": 0, "content_block": {
                "type": "tool_use", "id": "a", "name": "look", "input": input}})
        };
        let delta = |text: &str| {
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": text}})
        };
        let end = [
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ];
        let none = || block(json!({}));
        for begin in [
            vec![none(), delta(first), delta(rest), delta(empty)],
            // The arguments came with the beginning.
            vec![block(json!({"city": "Oslo"})), delta(empty)],
            vec![block(json!({"city": "Oslo"})), delta("{"), delta("}")],
        ] {
            let body = named(&[&begin[..], &end].concat());
            assert_eq!(arguments("anthropic", &body), [REAL], "{begin:?}");
        }
    }
}

/// Looks at a city, or at all of them.
#[tool(side_effects = "read")]
async fn look(
    seen: State<Seen>,
    /// Which city.
    city: Option<String>,
) -> String {
    seen.0.lock().unwrap().push(city.clone());
    seen.1.fetch_add(1, Ordering::SeqCst);
    city.unwrap_or_default()
}

/// With what it was called, and how often.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Option<String>>>>, Arc<AtomicUsize>);

#[tokio::test(start_paused = true)]
async fn a_call_does_not_start_early_with_an_empty_object() {
    let seen = Seen::default();
    let first = reply()
        .begin_call("a", "look")
        .arguments("{}")
        .pause(std::time::Duration::from_secs(5))
        .event(StreamEvent::ToolCallArguments { block: 0, json: REAL.to_owned() })
        .end_call();
    let model = ScriptedProvider::new([first, reply().text("Done.")]);
    let agent = Agent::builder(model).tools(tools![look]).state(seen.clone()).build().unwrap();
    agent.run("Look.").await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), [Some("Oslo".to_owned())]);
}

#[test]
fn it_stands_for_what_follows_in_deltas_of_every_wire() {
    let (first, rest) = REAL.split_at(5);
    for pieces in [vec!["{}", REAL], vec!["{", " }", " ", first, rest], vec!["{}", "{}", REAL]] {
        let block = json!({"type": "tool_use", "id": "a", "name": "look", "input": {}});
        let delta = |text: &&str| {
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": text}})
        };
        let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
        let end = [
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ];
        let deltas = pieces.iter().map(delta);
        let body = named(&[start].into_iter().chain(deltas).chain(end).collect::<Vec<_>>());
        assert_eq!(arguments("anthropic", &body), [REAL], "{pieces:?}");

        let item = |text: &str| {
            json!({"type": "function_call", "id": "fc", "call_id": "a", "name": "look",
                "arguments": text})
        };
        let start =
            json!({"type": "response.output_item.added", "output_index": 0, "item": item("")});
        let delta = |text: &&str| {
            json!({"type": "response.function_call_arguments.delta", "output_index": 0,
                "item_id": "fc", "delta": text})
        };
        let done = |text| json!({"type": "response.output_item.done", "output_index": 0, "item": item(text)});
        let end = json!({"type": "response.completed", "response": {"status": "completed"}});
        for last in [Some(done("")), Some(done(REAL)), None] {
            let events = [start.clone()].into_iter().chain(pieces.iter().map(delta));
            let body = named(&events.chain(last).chain([end.clone()]).collect::<Vec<_>>());
            assert_eq!(arguments("responses", &body), [REAL], "{pieces:?}");
        }

        let piece = |text: &&str| json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": text}});
        let body = chat(&pieces.iter().map(piece).collect::<Vec<_>>());
        assert_eq!(arguments("chat", &body), [REAL], "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nor_when_the_empty_call_has_ended_before_it_is_said_again() {
    let pause = std::time::Duration::from_secs(5);
    let said =
        |first: &str| reply().begin_call("a", "look").arguments(first).end_call().pause(pause);
    let real = StreamEvent::ToolCallArguments { block: 0, json: REAL.to_owned() };
    let answers = [
        said("{}").begin_call("a", "look").arguments(REAL).end_call(),
        said("{ }").begin_call("a", "look").arguments(REAL).end_call(),
        said("").begin_call("a", "look").arguments(REAL).end_call(),
        said("{}").event(real),
    ];
    for answer in answers {
        let seen = Seen::default();
        let model = ScriptedProvider::new([answer, reply().text("Done.")]);
        let agent = Agent::builder(model).tools(tools![look]).state(seen.clone()).build().unwrap();
        agent.run("Look.").await.unwrap();
        assert_eq!(*seen.0.lock().unwrap(), [Some("Oslo".to_owned())]);
    }
}
