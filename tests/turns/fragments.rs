//! Pieces of a call are never dropped: if what says whose they are was lost, the model reads that
//! the call did not run.

use std::sync::atomic::Ordering;

use harness::{
    Agent,
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
    tool::{SideEffect, SideEffects},
    wire::WIRES,
};
use serde_json::{Value, json};

use super::{counting, provider, stream};

const PIECES: [&str; 2] = [r#"{"city":"#, r#""Oslo"}"#];

fn pieces(wire: &str, with_text: bool) -> Vec<Value> {
    let [one, two] = PIECES;
    match wire {
        "anthropic" => {
            let mut events =
                vec![json!({"type": "message_start", "message": {"id": "a", "usage": {}}})];
            if with_text {
                events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hm."}}));
            }
            events.extend([one, two].map(|piece| {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}})
            }));
            events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
            events.push(json!({"type": "message_stop"}));
            events
        }
        "responses" => {
            let mut events = vec![json!({"type": "response.created", "response": {"id": "a"}})];
            if with_text {
                events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}));
                events.push(json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hm."}));
            }
            events.extend([one, two].map(|piece| {
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "f", "delta": piece})
            }));
            events.push(json!({"type": "response.completed", "response": {"id": "a", "status": "completed", "output": []}}));
            events
        }
        _ => {
            let chunk = |delta: Value, finish: Value| json!({"id": "a", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            let mut events = Vec::new();
            if with_text {
                events.push(chunk(json!({"content": "Hm."}), Value::Null));
            }
            events.extend([one, two].map(|piece| {
                chunk(json!({"tool_calls": [{"function": {"arguments": piece}}]}), Value::Null)
            }));
            events.push(chunk(json!({}), json!("tool_calls")));
            events
        }
    }
}

fn sorry(wire: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().text("Again.").answer(),
        "responses" => responses::body().text("Again.").answer(),
        _ => chat::body().text("Again.").answer(),
    }
}

#[tokio::test]
async fn arguments_without_a_beginning_are_a_call_that_the_model_hears_of() {
    for (wire, with_text) in WIRES.into_iter().flat_map(|wire| [(wire, false), (wire, true)]) {
        let mut text = stream(&pieces(wire, with_text));
        if wire == "chat" {
            text.push_str("data: [DONE]\n\n");
        }
        let server = LoopbackServer::start([Answer::sse(text), sorry(wire)]).await.unwrap();
        let (book, calls) = counting("book", SideEffects::of(&[SideEffect::Write]));
        let agent = Agent::builder(provider(wire, &server)).tools([book]).build().unwrap();
        let reply = agent.run("Book it.").await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!(reply.text(), "Again.", "{wire}");
        assert_eq!(calls.load(Ordering::Relaxed), 0, "{wire}");
        let told = server.requests()[1].text();
        assert!(told.contains("Oslo") && told.contains("book"), "{wire}: {told}");
        let call = reply.transcript().messages()[1].calls().next().cloned().unwrap();
        assert_eq!((call.name(), call.arguments()), ("", PIECES.concat().as_str()), "{wire}");
    }
}

#[tokio::test]
async fn a_beginning_that_comes_late_names_the_call() {
    let mut events = pieces("anthropic", false);
    events.insert(
        2,
        json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "c", "name": "book", "input": {}}}),
    );
    let done = |name: Option<&str>| {
        let mut events = pieces("responses", false);
        let end = events.len() - 1;
        events.insert(
            end,
            json!({"type": "response.function_call_arguments.done", "output_index": 0,
            "item_id": "f", "name": name, "arguments": PIECES.concat()}),
        );
        events
    };
    // The end of the answer repeats the call under another id.
    let mut repeated = done(None);
    let call = json!({"type": "function_call", "id": "g", "call_id": "c", "name": "book", "arguments": PIECES.concat()});
    *repeated.last_mut().unwrap() = json!({"type": "response.completed",
        "response": {"id": "a", "status": "completed", "output": [call]}});
    for (wire, events) in
        [("anthropic", events), ("responses", done(Some("book"))), ("responses", repeated)]
    {
        let answers = [Answer::sse(stream(&events)), sorry(wire)];
        let server = LoopbackServer::start(answers).await.unwrap();
        let (book, calls) = counting("book", SideEffects::of(&[SideEffect::Write]));
        let agent = Agent::builder(provider(wire, &server)).tools([book]).build().unwrap();
        let reply = agent.run("Book it.").await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!((reply.text(), calls.load(Ordering::Relaxed)), ("Again.", 1), "{wire}");
        let transcript = reply.transcript();
        let made: Vec<_> = transcript.messages().iter().flat_map(|it| it.calls()).collect();
        assert_eq!(made.len(), 1, "{wire}");
        assert_eq!(made[0].arguments(), PIECES.concat(), "{wire}");
    }
}
