//! A conversation as it is sent again: ids, numbers and results that servers refuse.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use harness::{
    Agent, Block, CallOutcome, Message, Role, State, Tool, ToolCall, ToolContent, ToolResult,
    Transcript,
    provider::Request,
    testing::{ScriptedProvider, reply},
    tool, tools,
    wire::WIRES,
};
use serde_json::{Value, json};

use super::{encoded, list};

/// The ids of the calls and of the results in a body, each in order.
fn ids(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |it: &Value| it.as_str().expect("an id").to_owned();
    for message in list(body) {
        match message["type"].as_str() {
            Some("function_call") => calls.push(text(&message["call_id"])),
            Some("function_call_output") => results.push(text(&message["call_id"])),
            _ => {}
        }
        if message["role"] == "tool" {
            results.push(text(&message["tool_call_id"]));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            calls.push(text(&call["id"]));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => calls.push(text(&block["id"])),
                Some("tool_result") => results.push(text(&block["tool_use_id"])),
                _ => {}
            }
        }
    }
    (calls, results)
}

/// NousResearch/hermes-agent#111443, can1357/oh-my-pi#2055, NousResearch/hermes-agent#67777, earendil-works/pi#9057.
#[tokio::test]
async fn ids_that_a_server_gives_to_several_calls_are_unique_in_the_conversation() {
    let model = ScriptedProvider::new([
        reply().call_with_id("terminal:0", "look", json!({"at": 1})),
        reply().call_with_id("terminal:0", "look", json!({"at": 2})).call_with_id(
            "terminal:0",
            "look",
            json!({"at": 3}),
        ),
        reply().text("Seen."),
        reply().call_with_id("terminal:0", "look", json!({"at": 4})),
        reply().text("Seen again."),
    ]);
    let schema = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let effects = harness::SideEffects::of(&[harness::SideEffect::Read]);
    let look = Tool::new("look", "Looks.", schema, effects, |_, arguments| {
        Box::pin(async move { Ok(arguments["at"].to_string().into()) })
    });
    let agent = Agent::builder(model).tools([look]).build().unwrap();
    let mut chat = agent.chat();
    chat.send("Look.").await.unwrap();
    chat.send("Look again.").await.unwrap();
    chat.send("Thanks.").await.unwrap_err();
    let told: Vec<String> = chat
        .transcript()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.to_text())
        .collect();
    assert_eq!(told, ["1", "2", "3", "4"]);
    for wire in WIRES {
        let (calls, results) = ids(&encoded(wire, &Request::new(chat.transcript()).unwrap()));
        assert_eq!(calls, results, "{wire}");
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), 4, "{wire}: {calls:?}");
    }
}

/// earendil-works/pi#8719, HKUDS/nanobot#949, NousResearch/hermes-agent#41985.
#[test]
fn a_result_of_white_space_is_not_sent_as_one() {
    for said in ["\r\n", " ", "", "\n\n\t"] {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Run it.")).unwrap();
        let call = ToolCall::new("call_1", "run", "{}");
        transcript.push(Message::assistant([Block::ToolCall(call)])).unwrap();
        let result = ToolResult::new("call_1", CallOutcome::Succeeded, [ToolContent::from(said)]);
        transcript.push(Message::new(Role::Tool, [Block::ToolResult(result)])).unwrap();
        for wire in WIRES {
            let body = encoded(wire, &Request::new(&transcript).unwrap());
            let last = list(&body).last().unwrap();
            let told = match wire {
                "anthropic" => last["content"][0]["content"].clone(),
                "responses" => last["output"].clone(),
                _ => last["content"].clone(),
            };
            let told = match told {
                Value::Array(parts) => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
                told => told.as_str().unwrap_or_default().to_owned(),
            };
            assert!(!told.trim().is_empty(), "{wire} {said:?}: {body}");
        }
    }
}

#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<u64>>>);

/// Finds a row.
#[tool(side_effects = "read")]
async fn find(
    /** The number of the row */
    id: u64,
    found: State<Found>,
) -> String {
    found.0.lock().expect("unpoisoned").push(id);
    "found".to_owned()
}

/// earendil-works/pi#8943, NousResearch/hermes-agent#55315.
#[tokio::test]
async fn a_number_that_a_float_cannot_hold_stays_the_same_number() {
    const ID: u64 = 2_512_292_042_121_000_001;
    let model = ScriptedProvider::new([
        reply().call_text("find", format!(r#"{{"id": {ID}}}"#)),
        reply().call_text("find", format!(r#"{{"id": "{ID}"}}"#)),
        reply().text("Found."),
    ]);
    let found = Found::default();
    let agent = Agent::builder(model.clone()).tools(tools![find]).state(found.clone());
    let reply = agent.build().unwrap().run("Find it.").await.unwrap();
    let all = found.0.lock().expect("unpoisoned").clone();
    assert!(!all.is_empty() && all.iter().all(|id| *id == ID), "{all:?}");
    for wire in WIRES {
        let mut transcript = reply.transcript().clone();
        transcript.push(Message::user("And?")).unwrap();
        let body = encoded(wire, &Request::new(&transcript).unwrap()).to_string();
        // Twice as the model wrote it, and once in the words about the text that is no number.
        assert_eq!(body.matches(&ID.to_string()).count(), 3, "{wire}: {body}");
        assert_eq!(body.matches("2512292042121").count(), 3, "{wire}: {body}");
    }
}
