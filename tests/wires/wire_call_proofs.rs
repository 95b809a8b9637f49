//! Data that a server wants back with a call, such as the signature of Gemini's models, is sent
//! back to the server and the model that gave it, and to no other.

use std::fmt::Write as _;

use harness::{
    Block, CallOutcome, ChatCompletionsProvider, Message, Provider, Role, ToolCall, ToolContent,
    ToolResult, Transcript,
    message::VendorData,
    provider::{Request, accumulate},
    testing::{Answer, LoopbackServer},
    wire::chat::{self, DecodeOptions, Options, Origin},
};
use serde_json::{Value, json};

use crate::decoded::{both_ways, unnamed};

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta,
        "finish_reason": finish}]})
}

fn call(index: Option<u64>, id: &str, arguments: &str, extra: Option<Value>) -> Value {
    let function = json!({"name": "look", "arguments": arguments});
    let mut call = json!({"id": id, "type": "function", "function": function});
    if let Some(index) = index {
        call["index"] = index.into();
    }
    if let Some(extra) = extra {
        call["extra_content"] = extra;
    }
    json!({"tool_calls": [call]})
}

fn signed(vendor: &str, proof: &str) -> Value {
    json!({vendor: {"thought_signature": proof}})
}

/// Answers with two calls, of which the first one has a proof.
fn answers() -> Vec<(&'static str, Vec<Value>)> {
    let proof = || signed("google", "abc+/=");
    let end = || chunk(json!({}), Some("stop"));
    let alone = |call: Value| chunk(json!({"tool_calls": [call]}), None);
    vec![
        (
            "beside the call",
            vec![
                chunk(call(Some(0), "a", "{}", Some(proof())), None),
                chunk(call(Some(1), "b", r#"{"n":1}"#, None), None),
                end(),
            ],
        ),
        (
            "without places",
            vec![
                chunk(call(None, "a", "{}", Some(proof())), None),
                chunk(call(None, "b", r#"{"n":1}"#, None), None),
                end(),
            ],
        ),
        (
            "in a delta of its own, which names the call",
            vec![
                chunk(call(Some(0), "a", "{}", None), None),
                chunk(call(Some(1), "b", r#"{"n":1}"#, None), None),
                alone(json!({"index": 0, "extra_content": proof()})),
                end(),
            ],
        ),
        (
            "in a delta of its own, which names nothing",
            vec![
                chunk(call(None, "a", "{}", None), None),
                alone(json!({"extra_content": proof()})),
                chunk(call(None, "b", r#"{"n":1}"#, None), None),
                end(),
            ],
        ),
        (
            "in a delta of its own with empty members",
            vec![
                chunk(call(Some(0), "a", "{}", None), None),
                alone(json!({"index": 7, "id": "", "function": {"name": "", "arguments": ""},
                    "extra_content": proof()})),
                chunk(call(Some(1), "b", r#"{"n":1}"#, None), None),
                end(),
            ],
        ),
        (
            "with an empty one behind it",
            vec![
                chunk(call(Some(0), "a", "{}", Some(proof())), None),
                chunk(call(Some(1), "b", r#"{"n":1}"#, None), None),
                alone(json!({"index": 0, "extra_content": {}})),
                end(),
            ],
        ),
        (
            "with the end",
            vec![
                chunk(call(Some(0), "a", "{}", None), None),
                chunk(call(Some(1), "b", r#"{"n":1}"#, None), None),
                chunk(
                    json!({"tool_calls": [{"index": 0, "id": "a", "extra_content": proof()}]}),
                    Some("tool_calls"),
                ),
            ],
        ),
    ]
}

fn transcript(message: Message) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Look.")).unwrap();
    let results: Vec<Block> = message
        .calls()
        .map(|call| ToolResult::new(call.id(), CallOutcome::Succeeded, [ToolContent::from("42")]))
        .map(Block::ToolResult)
        .collect();
    transcript.push(message).unwrap();
    transcript.push(Message::new(Role::Tool, results)).unwrap();
    transcript
}

/// What is sent beside each call.
fn extras(transcript: &Transcript, options: &Options) -> Vec<Value> {
    let request = Request::new(transcript).unwrap();
    let body: Value = serde_json::from_slice(&chat::encode(&request, options).unwrap()).unwrap();
    let calls = body["messages"][1]["tool_calls"].as_array().unwrap();
    calls.iter().map(|call| call["extra_content"].clone()).collect()
}

#[test]
fn a_proof_goes_back_to_the_model_that_gave_it_and_to_no_other() {
    let gemini = Origin::of("https://gemini.test", "gemini-3");
    let reading = DecodeOptions { origin: gemini, ..DecodeOptions::default() };
    for (about, events) in answers() {
        let body = unnamed(&events) + "data: [DONE]\n\n";
        let answer = both_ways("chat", &body, reading).answer();
        let message = answer.message.unwrap();
        let calls: Vec<_> = message.calls().map(|call| (call.id(), call.arguments())).collect();
        assert_eq!(calls, [("a", "{}"), ("b", r#"{"n":1}"#)], "{about}");

        // Also when it was written down in between.
        let saved = serde_json::to_string(&transcript(message)).unwrap();
        let transcript: Transcript = serde_json::from_str(&saved).unwrap();
        let extras = |origin| extras(&transcript, &Options { origin, ..Options::new("m") });
        assert_eq!(extras(gemini), [signed("google", "abc+/="), Value::Null], "{about}");
        for other in [
            Origin::of("https://gemini.test", "gemini-4"),
            Origin::of("https://other.test", "gemini-3"),
            Origin::default(),
        ] {
            assert_eq!(extras(other), [Value::Null, Value::Null], "{about}");
        }
    }
}

#[test]
fn each_call_keeps_its_own_and_what_broke_off_keeps_none() {
    let events = [
        chunk(call(Some(0), "a", "{}", Some(signed("vertex", "one"))), None),
        chunk(call(Some(1), "b", "{}", Some(signed("vertex", "two"))), None),
        chunk(call(Some(2), "c", r#"{"n":"#, Some(signed("vertex", "three"))), Some("length")),
    ];
    let body = unnamed(&events) + "data: [DONE]\n\n";
    let message = both_ways("chat", &body, DecodeOptions::default()).answer().message.unwrap();
    let sent = extras(&transcript(message), &Options::new("m"));
    assert_eq!(sent, [signed("vertex", "one"), signed("vertex", "two")]);
}

#[test]
fn a_call_of_another_model_goes_to_gemini_with_the_value_that_is_not_checked() {
    let skip = |vendor| signed(vendor, "skip_thought_signature_validator");
    let foreign = |wire: &str| {
        let data =
            VendorData::new(wire, r#"{"extra_content":{"google":{}},"origin":"7"}"#).unwrap();
        let call = |id| Block::ToolCall(ToolCall::new(id, "look", "{}"));
        let first = ToolCall::new("a", "look", "{}").with_vendor(Some(data));
        transcript(Message::assistant([Block::ToolCall(first), call("b"), call("c")]))
    };
    for wire in ["anthropic", "chat"] {
        for vendor in ["google", "vertex"] {
            let options = Options { signed_calls: Some(vendor.into()), ..Options::new("m") };
            let sent = extras(&foreign(wire), &options);
            assert_eq!(sent, [skip(vendor), Value::Null, Value::Null], "on the first one alone");
        }
        assert_eq!(extras(&foreign(wire), &Options::new("m")), [const { Value::Null }; 3]);
    }
}

#[tokio::test]
async fn the_provider_sends_back_what_its_server_gave() {
    let (_, events) = answers().remove(0);
    let body = unnamed(&events) + "data: [DONE]\n\n";
    let server = LoopbackServer::answering(move |_| Answer::sse(body.clone())).await.unwrap();
    let provider = |model: &str| {
        ChatCompletionsProvider::builder().base_url(server.url()).model(model).build().unwrap()
    };
    let mut first = Transcript::default();
    first.push(Message::user("Look.")).unwrap();
    let asked = provider("gemini-3");
    let answer = accumulate(asked.stream(Request::new(&first).unwrap())).await.unwrap();
    let second = transcript(answer.message.unwrap());
    let mut seen = String::new();
    for model in ["gemini-3", "gemini-2.5"] {
        let provider = provider(model);
        accumulate(provider.stream(Request::new(&second).unwrap())).await.unwrap();
        let sent = server.requests().last().unwrap().json();
        let proof = &sent["messages"][1]["tool_calls"][0]["extra_content"];
        writeln!(seen, "{model} {proof}").unwrap();
    }
    assert_eq!(seen, "gemini-3 {\"google\":{\"thought_signature\":\"abc+/=\"}}\ngemini-2.5 null\n");
}
