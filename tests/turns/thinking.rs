//! Thinking goes back where a server needs it, and not where it is off.

use harness::{
    Agent, AnthropicProvider, Block, CallOutcome, Message, ReasoningBlock, Role, ToolCall,
    ToolContent, ToolResult, Transcript,
    message::VendorData,
    policy::RetryPolicy,
    provider::{Effort, Request, Settings},
    testing::{Answer, LoopbackServer, anthropic},
    tool::{SideEffect, SideEffects},
    wire::anthropic as wire,
};
use serde_json::{Value, json};

use super::{counting, refuses, stream};

fn signed(text: &str) -> Block {
    let data = VendorData::new("anthropic", r#"{"signature":"sig"}"#).unwrap();
    Block::Reasoning(ReasoningBlock::new(text, Some(data)))
}

fn call(id: &str) -> Block {
    Block::ToolCall(ToolCall::new(id, "look", "{}"))
}

fn result(id: &str) -> Message {
    let result = ToolResult::new(id, CallOutcome::Succeeded, [ToolContent::from("Seen.")]);
    Message::new(Role::Tool, [Block::ToolResult(result)])
}

/// An earlier turn with thinking, and an open one that begins with these blocks.
fn open_turn(first: Vec<Block>) -> Transcript {
    let mut transcript = Transcript::default();
    for message in [
        Message::user("First?"),
        Message::assistant([signed("Earlier."), Block::text("Yes.")]),
        Message::user("Look."),
        Message::assistant(first),
        result("a"),
    ] {
        transcript.push(message).unwrap();
    }
    transcript
}

fn body(transcript: &Transcript, model: &str, settings: Settings) -> Value {
    let options = wire::Options { settings, ..wire::Options::new(model) };
    let bytes = wire::encode(&Request::new(transcript).unwrap(), &options).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn thoughts(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().unwrap());
    let thinks = blocks.filter(|block| block["type"] == "thinking");
    thinks.map(|block| block["thinking"].as_str().unwrap()).collect()
}

fn with(effort: Option<Effort>) -> Settings {
    Settings { effort, ..Settings::default() }
}

#[test]
fn thinking_that_is_off_is_not_sent_in_an_open_turn() {
    let transcript = open_turn(vec![signed("Where?"), call("a")]);
    let off = [
        ("claude-sonnet-4-5", Some(Effort::Off)),
        ("claude-sonnet-4-5", None),
        ("claude-3-5-haiku-20241022", Some(Effort::High)),
        ("claude-opus-4-8", Some(Effort::Off)),
        ("claude-opus-4-8", None),
        ("claude-sonnet-5", Some(Effort::Off)),
        ("my-own", Some(Effort::Off)),
    ];
    for (model, effort) in off {
        let sent = body(&transcript, model, with(effort));
        assert_eq!(thoughts(&sent), [""; 0], "{model} {effort:?}");
        assert_eq!(sent["messages"][3]["content"][0]["type"], "tool_use", "{model} {effort:?}");
    }
    let mut extra = Settings::default();
    extra.extra.insert("thinking".to_owned(), json!({"type": "disabled"}));
    assert_eq!(thoughts(&body(&transcript, "claude-sonnet-5", extra)), [""; 0]);
}

#[test]
fn thinking_that_is_on_comes_first_in_an_open_turn() {
    let transcript = open_turn(vec![signed("Where?"), call("a")]);
    let on = [
        ("claude-sonnet-4-5", Some(Effort::Low)),
        ("claude-opus-4-8", Some(Effort::Low)),
        // These think unasked, or always.
        ("claude-sonnet-5", None),
        ("claude-opus-5-5", Some(Effort::Off)),
        ("claude-sonnet-5-5", Some(Effort::Off)),
        ("my-own", None),
    ];
    for (model, effort) in on {
        let sent = body(&transcript, model, with(effort));
        assert_eq!(thoughts(&sent), ["Earlier.", "Where?"], "{model} {effort:?}");
        assert_eq!(sent["messages"][3]["content"][0]["type"], "thinking", "{model} {effort:?}");
    }
}

#[test]
fn a_turn_that_began_without_thinking_goes_on_without_it_where_a_budget_needs_it_first() {
    let unsigned = Block::Reasoning(ReasoningBlock::new("Of another model.", None));
    for first in [vec![call("a")], vec![unsigned, call("a")], vec![Block::text("Hm."), call("a")]] {
        let mut transcript = open_turn(first);
        let sent = body(&transcript, "claude-sonnet-4-5", with(Some(Effort::High)));
        assert_eq!((&sent["thinking"], thoughts(&sent)), (&Value::Null, vec![]));
        // The model decides itself: the vendor does not ask for thinking at the beginning.
        let sent = body(&transcript, "claude-opus-4-8", with(Some(Effort::High)));
        assert_eq!(sent["thinking"]["type"], "adaptive");
        // From the next turn on, it thinks.
        transcript.push(Message::assistant([Block::text("Seen.")])).unwrap();
        transcript.push(Message::user("And now?")).unwrap();
        let sent = body(&transcript, "claude-sonnet-4-5", with(Some(Effort::High)));
        assert_eq!(sent["thinking"]["type"], "enabled");
    }
}

/// A server that refuses a turn with calls without its thinking, which it does not sign.
fn wants_thinking(body: &Value) -> Result<(), Answer> {
    for message in body["messages"].as_array().unwrap() {
        let Some(blocks) = message["content"].as_array().filter(|_| message["role"] == "assistant")
        else {
            continue;
        };
        let has = |kind: &str| blocks.iter().any(|block| block["type"] == kind);
        if has("tool_use") && !has("thinking") {
            let words =
                "The `content[].thinking` in the thinking mode must be passed back to the API.";
            return Err(refuses(400, words));
        }
    }
    Ok(())
}

fn asks(thinking: Option<&str>, id: &str) -> Answer {
    let mut events = vec![json!({"type": "message_start", "message": {"id": id, "usage": {}}})];
    let mut block = |block: Value| {
        let index = events.len();
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    if let Some(thinking) = thinking {
        block(json!({"type": "thinking", "thinking": thinking}));
    }
    block(json!({"type": "tool_use", "id": id, "name": "book", "input": {"city": "Oslo"}}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    Answer::sse(stream(&events))
}

#[tokio::test]
async fn a_server_that_wants_its_unsigned_thinking_back_gets_it() {
    let mut number = 0;
    let server = LoopbackServer::answering(move |request| {
        number += 1;
        match (wants_thinking(&request.json()), number) {
            (Err(refused), _) => refused,
            (Ok(()), 1) => asks(Some("To Oslo, then."), "a"),
            // Some turns have none, and want it back all the same.
            (Ok(()), 2) => asks(None, "b"),
            (Ok(()), _) => anthropic::body().text("Booked.").answer(),
        }
    });
    let server = server.await.unwrap();
    let builder = AnthropicProvider::builder().api_key("k").base_url(server.url()).model("m");
    let provider = builder.unsigned_thinking(true).build().unwrap();
    let (book, _) = counting("book", SideEffects::of(&[SideEffect::Write]));
    let agent = Agent::builder(provider.with_retry(RetryPolicy::none())).tools([book]);
    let agent = agent.build().unwrap();
    let mut chat = agent.chat();
    assert_eq!(chat.send("Book it.").await.unwrap().text(), "Booked.");
    assert_eq!(chat.send("Thanks.").await.unwrap().text(), "Booked.");
    let last = server.requests().last().unwrap().json();
    assert_eq!(thoughts(&last), ["To Oslo, then.", ""]);
}
