//! Requests of random conversations: the vendor accepts each, and each begins with the bytes of the
//! one before.

use async_openai::types::{
    chat::CreateChatCompletionRequest,
    responses::{CreateResponse, EasyInputMessage, Item, Tool},
};
use harness::{
    Block, CallOutcome, Link, Media, Message, ReasoningBlock, Role, TextBlock, ToolCall,
    ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{EncodedPrefix, Request},
    tool::ToolSchema,
    wire::{anthropic, chat, responses},
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::{Value, json};

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        "[a-zé\"\\\\ \n]{1,20}",
        Just("</think>\u{1F980}".to_owned()),
    ]
}

fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(r#" {"city":"Oslo","n":1.0} "#.to_owned()),
        Just(r#"{"city":"#.to_owned()),
        Just("[23]".to_owned()),
        Just("null".to_owned()),
        Just(r#"{"a":1}{"b":2}"#.to_owned()),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        "toolu_[a-z0-9]{4}",
        "functions\\.add:[0-9]{1,2}",
        "chatcmpl-tool-[a-f0-9]{60}",
        "[a-zA-Z0-9]{9}",
        "é{1,3}[0-9]{2}",
    ]
}

fn vendor(kind: &'static str) -> impl Strategy<Value = Option<VendorData>> {
    let anthropic = match kind {
        "text" => json!({"citations": [{"type": "char_location", "cited_text": "x"}]}),
        "reasoning" => json!({"signature": "sig+/="}),
        _ => json!({"caller": {"type": "direct"}}),
    };
    let responses = match kind {
        "text" => json!({"id": "msg_1", "phase": "commentary"}),
        "reasoning" => {
            json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"})
        }
        _ => json!({"id": "fc_1"}),
    };
    let chat =
        json!({"field": "reasoning_content", "reasoning_details": [{"type": "reasoning.text"}]});
    let of = |wire: &str, json: Value| Some(VendorData::new(wire, json.to_string()).unwrap());
    prop_oneof![
        Just(None),
        Just(of("anthropic", anthropic)),
        Just(of("responses", responses)),
        Just(of("chat", chat)),
        Just(of("elsewhere", json!({"type": "secret", "id": "x"}))),
    ]
}

fn assistant_block() -> impl Strategy<Value = Block> {
    let whole = |wire: &str, json: Value| {
        Just(Block::Vendor(VendorData::new(wire, json.to_string()).unwrap()))
    };
    prop_oneof![
        3 => (words(), vendor("text"))
            .prop_map(|(text, data)| Block::Text(TextBlock::new(text).with_vendor(data))),
        2 => (words(), vendor("reasoning"))
            .prop_map(|(text, data)| Block::Reasoning(ReasoningBlock::new(text, data))),
        3 => (id(), "[a-z_.]{1,8}", arguments(), vendor("call")).prop_map(
            |(id, name, arguments, data)| {
                Block::ToolCall(ToolCall::new(id, name, arguments).with_vendor(data))
            }
        ),
        1 => whole("anthropic", json!({"type": "redacted_thinking", "data": "x"})),
        1 => whole("responses", json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {"type": "search", "query": "x"}})),
    ]
}

fn content() -> impl Strategy<Value = ToolContent> {
    prop_oneof![
        words().prop_map(ToolContent::Text),
        Just(ToolContent::Json(json!({"a": [1, null]}))),
        Just(ToolContent::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"))),
        pdf().prop_map(ToolContent::Document),
        notes().prop_map(ToolContent::Document),
        Just(ToolContent::Audio(Media::from_bytes("audio/wav", b"RIFF\0\0\0\0WAVE"))),
        Just(Link::new("res://a", "a").into()),
    ]
}

fn pdf() -> impl Strategy<Value = Media> {
    let pdf = || Media::from_bytes("application/pdf", b"%PDF-1.7");
    prop_oneof![Just(pdf()), words().prop_map(move |name| pdf().with_name(name))]
}

fn notes() -> impl Strategy<Value = Media> {
    words().prop_map(|text| Media::from_text("text/plain", format!("Notes: {text}")))
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![Just(CallOutcome::Succeeded), Just(CallOutcome::Failed), Just(CallOutcome::InDoubt),]
}

/// What one turn is made of: the person's words, the model's blocks, the tools' results.
type Turn = (Vec<Block>, Vec<Block>, Vec<(CallOutcome, Vec<ToolContent>)>);

fn turn() -> impl Strategy<Value = Turn> {
    let user = prop_oneof![
        3 => words().prop_map(Block::text),
        1 => Just(Block::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"))),
        1 => Just(Block::Image(Media::from_url("https://a.test/a.png"))),
        1 => pdf().prop_map(Block::Document),
        1 => notes().prop_map(Block::Document),
    ];
    (
        proptest::collection::vec(user, 1..3),
        proptest::collection::vec(assistant_block(), 1..6),
        proptest::collection::vec((outcome(), proptest::collection::vec(content(), 0..3)), 6),
    )
}

fn transcript(turns: Vec<Turn>) -> Transcript {
    let mut transcript = Transcript::default();
    // A conversation of nothing but white space cannot be sent.
    transcript.push(Message::user("Hello")).unwrap();
    for (user, assistant, results) in turns {
        transcript.push(Message::new(Role::User, user)).unwrap();
        let message = Message::assistant(assistant);
        let calls: Vec<String> = message.calls().map(|call| call.id().to_owned()).collect();
        if transcript.push(message).is_err() {
            // Two calls had one id.
            continue;
        }
        if !calls.is_empty() {
            let results = calls.into_iter().zip(results);
            let results = results.map(|(id, (outcome, content))| {
                Block::ToolResult(ToolResult::new(id, outcome, content))
            });
            transcript.push(Message::new(Role::Tool, results)).unwrap();
        }
    }
    transcript
}

fn schemas() -> Vec<ToolSchema> {
    vec![ToolSchema {
        name: "weather".to_owned(),
        description: "Says the weather.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    }]
}

/// The bodies of the requests as the conversation grows by one message each time. Each is made
/// anew, and of what was sent before, which must be the same.
fn bodies(transcript: &Transcript, encode: impl Fn(&Request<'_>) -> Vec<u8>) -> Vec<Vec<u8>> {
    let tools = schemas();
    let sent = EncodedPrefix::new();
    let mut grown = Transcript::default();
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for message in transcript.messages() {
        grown.push(message.clone()).unwrap();
        if let Ok(request) = Request::new(&grown) {
            let request = request.with_system(Some("Be brief.")).with_tools(&tools);
            let body = encode(&request);
            assert_eq!(body, encode(&request.with_sent(Some(&sent))));
            bodies.push(body);
        }
    }
    assert!(sent.size() > 0);
    bodies
}

/// What was sent stays as it was: a body without its end is the beginning of the next one.
fn assert_prefixes(bodies: &[Vec<u8>]) {
    for pair in bodies.windows(2) {
        let open = pair[0].strip_suffix(b"]}").expect("the messages come last");
        assert!(
            pair[1].starts_with(open),
            "{}\nis no beginning of\n{}",
            String::from_utf8_lossy(&pair[0]),
            String::from_utf8_lossy(&pair[1])
        );
    }
}

/// The rules of the Messages API, from the vendor's reference and its error texts.
fn assert_anthropic_takes(body: &Value) {
    let plain = |id: &str| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    let breakpoints = body.to_string().matches("cache_control").count();
    assert!(breakpoints <= 4, "{breakpoints} breakpoints");
    assert!(body["max_tokens"].as_u64().unwrap() > 0);
    let mut owed: Vec<String> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        assert!(matches!(role, "user" | "assistant"));
        let content = message["content"].as_array().unwrap();
        assert!(!content.is_empty(), "an empty message");
        let answered: Vec<String> = content
            .iter()
            .filter_map(|block| block["tool_use_id"].as_str().map(str::to_owned))
            .collect();
        if !owed.is_empty() {
            assert_eq!((role, &answered), ("user", &owed), "results come at once, in order");
        }
        owed.clear();
        let mut called = false;
        let mut worded = false;
        for block in content {
            let kind = block["type"].as_str().unwrap();
            match kind {
                "text" => {
                    assert!(!block["text"].as_str().unwrap().trim().is_empty(), "blank text");
                    assert!(block.get("citations").is_none() || role == "assistant");
                    worded = true;
                }
                "image" => worded = true,
                "document" => {
                    let title = block.get("title").map(|title| title.as_str().unwrap());
                    let fits = |title: &str| !title.trim().is_empty() && title.len() <= 500;
                    assert!(role == "user" && title.is_none_or(fits), "{block}");
                    worded = true;
                }
                "thinking" => assert!(!block["signature"].as_str().unwrap().is_empty()),
                "tool_use" => {
                    assert!(plain(block["id"].as_str().unwrap()), "{block}");
                    assert!(plain(block["name"].as_str().unwrap()), "{block}");
                    assert!(block["input"].is_object(), "{block}");
                    owed.push(block["id"].as_str().unwrap().to_owned());
                    called = true;
                }
                "tool_result" => {
                    assert!(!worded, "results come first");
                    assert!(plain(block["tool_use_id"].as_str().unwrap()));
                    let parts = block["content"].as_array().unwrap();
                    assert!(!parts.is_empty(), "an empty result");
                    for part in parts {
                        let blank =
                            part["text"].as_str().is_some_and(|text| text.trim().is_empty());
                        assert!(!blank, "blank text in a result");
                        assert!(block["is_error"] != json!(true) || part["type"] == "text");
                    }
                }
                "redacted_thinking" => {}
                other => panic!("`{other}` is of another wire"),
            }
            // Thinking between two calls stays there.
            let assistant = matches!(kind, "thinking" | "redacted_thinking" | "tool_use");
            assert!(!called || assistant, "`{kind}` after a call");
            assert!(!assistant || role == "assistant", "{block}");
        }
    }
    assert!(owed.is_empty(), "calls without results");
}

fn assert_responses_takes(body: &Value) {
    serde_json::from_value::<CreateResponse>(body.clone()).unwrap();
    for tool in body["tools"].as_array().unwrap() {
        assert_eq!(tool["strict"], json!(false));
        serde_json::from_value::<Tool>(tool.clone()).unwrap();
    }
    let mut owed: Vec<&str> = Vec::new();
    for item in body["input"].as_array().unwrap() {
        let easy = item["content"].is_string();
        match easy {
            true => drop(serde_json::from_value::<EasyInputMessage>(item.clone()).unwrap()),
            false => drop(serde_json::from_value::<Item>(item.clone()).unwrap()),
        }
        match item["type"].as_str().unwrap() {
            "function_call" => {
                let arguments = item["arguments"].as_str().unwrap();
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                assert!(item["call_id"].as_str().unwrap().len() <= 64);
                owed.push(item["call_id"].as_str().unwrap());
            }
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap();
                let at = owed.iter().position(|owed| *owed == id).expect("a result without call");
                owed.remove(at);
            }
            "reasoning" => {
                assert!(item["encrypted_content"].is_string() && item["summary"].is_array())
            }
            "message" | "web_search_call" => {}
            other => panic!("`{other}` is of another wire"),
        }
    }
    assert!(owed.is_empty(), "calls without results");
}

fn assert_chat_takes(body: &Value) {
    serde_json::from_value::<CreateChatCompletionRequest>(body.clone()).unwrap();
    let mut owed: Vec<&str> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        match message["role"].as_str().unwrap() {
            "assistant" => {
                assert!(owed.is_empty(), "results come at once");
                let blank = message["content"].as_str().is_some_and(|text| text.trim().is_empty());
                assert!(!blank, "{message}");
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    assert!(call["id"].as_str().unwrap().len() <= 64);
                    owed.push(call["id"].as_str().unwrap());
                }
            }
            "tool" => {
                assert_eq!(owed.remove(0), message["tool_call_id"], "results in order");
                assert!(!message["content"].as_str().unwrap().trim().is_empty());
            }
            _ => assert!(owed.is_empty(), "results come at once"),
        }
    }
    assert!(owed.is_empty(), "calls without results");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::times(40),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/wire_encode_random.txt"
        )))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_conversation_is_one_that_anthropic_takes(turns in proptest::collection::vec(turn(), 1..5)) {
        let options = anthropic::Options::new("claude-sonnet-5");
        let bodies = bodies(&transcript(turns), |request| anthropic::encode(request, &options).unwrap());
        assert_prefixes(&bodies);
        for body in &bodies {
            assert_anthropic_takes(&serde_json::from_slice(body).unwrap());
        }
    }

    #[test]
    fn any_conversation_is_one_that_responses_takes(turns in proptest::collection::vec(turn(), 1..5)) {
        let options =
            responses::Options::new("gpt-5.6");
        let bodies = bodies(&transcript(turns), |request| responses::encode(request, &options).unwrap());
        assert_prefixes(&bodies);
        for body in &bodies {
            assert_responses_takes(&serde_json::from_slice(body).unwrap());
        }
    }

    #[test]
    fn any_conversation_is_one_that_chat_takes(
        turns in proptest::collection::vec(turn(), 1..5),
        replay in prop_oneof![
            Just(chat::ThoughtReplay::Off),
            Just(chat::ThoughtReplay::SameField),
            Just(chat::ThoughtReplay::Field("reasoning_content".into())),
            Just(chat::ThoughtReplay::Details),
        ],
        nine in any::<bool>(),
    ) {
        let call_ids = if nine { chat::CallIds::Nine } else { chat::CallIds::Plain };
        let options = chat::Options { thought: replay, call_ids, ..chat::Options::new("gpt-4o") };
        let bodies = bodies(&transcript(turns), |request| chat::encode(request, &options).unwrap());
        assert_prefixes(&bodies);
        for body in &bodies {
            assert_chat_takes(&serde_json::from_slice(body).unwrap());
        }
    }
}
