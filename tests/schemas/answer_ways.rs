//! How each vendor is asked for an answer that has to fit a schema: by its own mode if the mode
//! accepts the schema, else by a tool, else in words. The provider learns what a server refuses.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, ChatCompletionsProvider, Message, Outcome, Transcript,
    agent::Event,
    models::Models,
    provider::{Effort, EncodedPrefix, OutputMode, OutputSchema, Request, Settings, ToolChoice},
    testing::{Answer, LoopbackServer, ScriptedProvider, reply},
    tool::ToolSchema,
    wire::{ModelCapabilities, anthropic, chat, responses},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::decoded::unnamed;

/// A schema that every strict form has.
fn closed() -> Value {
    json!({"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"],
        "additionalProperties": false})
}

/// One to which no vendor can hold a model.
fn open() -> Value {
    json!({"type": "object", "properties": {"all": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["all"], "additionalProperties": false})
}

fn look() -> ToolSchema {
    ToolSchema { name: "look".into(), description: "Looks.".into(), input_schema: closed() }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wire {
    Anthropic,
    Responses,
    Chat,
}

/// The body of the request, and the way that was chosen.
fn body(
    wire: Wire,
    (name, model): (&str, &str),
    schema: Value,
    tools: &[ToolSchema],
    settings: Settings,
) -> (Value, OutputMode) {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("When?")).expect("lawful");
    let answer = OutputSchema::new("final_answer", schema, 0);
    let request = Request::new(&transcript).expect("it can be sent");
    let request = request.with_tools(tools).with_answer(Some(&answer));
    let takes = ModelCapabilities::of(name, model, &Models::default());
    let bytes = match wire {
        Wire::Anthropic => anthropic::encode(
            &request,
            &anthropic::Options { settings, takes, ..anthropic::Options::new(model) },
        ),
        Wire::Responses => responses::encode(
            &request,
            &responses::Options { settings, takes, ..responses::Options::new(model) },
        ),
        Wire::Chat => {
            chat::encode(&request, &chat::Options { settings, takes, ..chat::Options::new(model) })
        }
    };
    let body = serde_json::from_slice(&bytes.expect("a body")).expect("JSON");
    (body, answer.way().expect("a way"))
}

/// Whether the body has the vendor's mode, the tool and the words.
fn has(wire: Wire, body: &Value) -> (bool, bool, bool) {
    let format = match wire {
        Wire::Anthropic => body.pointer("/output_config/format/schema"),
        Wire::Responses => body.pointer("/text/format/schema"),
        Wire::Chat => body.pointer("/response_format/json_schema/schema"),
    };
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = body.to_string();
    (
        format.is_some(),
        tools.iter().any(|tool| tool.to_string().contains("final_answer")),
        text.contains("It has to fit this JSON Schema"),
    )
}

#[test]
fn the_way_follows_from_vendor_model_tools_and_schema() {
    use Wire::{Anthropic, Chat, Responses};
    let (mode, tool, words) = ((true, false, false), (false, true, false), (false, false, true));
    let both = (true, false, true);
    // Wire, provider and model; without and with tools; a schema without a strict form, without and with tools.
    let table = [
        (Anthropic, "anthropic", "claude-sonnet-5", [mode, mode, tool, tool]),
        (Anthropic, "anthropic", "claude-opus-5-5", [mode, mode, tool, tool]),
        (Anthropic, "anthropic", "claude-3-7-sonnet", [tool, tool, tool, tool]),
        (Anthropic, "anthropic", "nobody-knows", [tool, tool, tool, tool]),
        (Responses, "openai", "gpt-5.6", [mode, mode, mode, mode]),
        (Responses, "openai", "gpt-3.5-turbo", [tool, tool, tool, tool]),
        (Responses, "127.0.0.1:8080", "nobody-knows", [both, both, both, both]),
        (Chat, "google", "gemini-2.5-flash", [mode, tool, tool, tool]),
        (Chat, "google", "gemini-3-flash-preview", [mode, mode, tool, tool]),
        (Chat, "groq", "llama-3.3-70b-versatile", [mode, tool, tool, tool]),
        (Chat, "xai", "grok-4", [mode, tool, tool, tool]),
        (Chat, "mistral", "mistral-large-latest", [mode, tool, tool, tool]),
        (Chat, "deepseek", "deepseek-chat", [tool, tool, tool, tool]),
        (Chat, "127.0.0.1:8080", "nobody-knows", [both, tool, tool, tool]),
    ];
    for (wire, name, model, expected) in table {
        let looks = [look()];
        let cases: [(Value, &[ToolSchema]); 4] =
            [(closed(), &[]), (closed(), &looks), (open(), &[]), (open(), &looks)];
        for ((schema, tools), expected) in cases.into_iter().zip(expected) {
            let what = format!("{wire:?} {name} {model}, {} tools, {schema}", tools.len());
            let (body, way) = body(wire, (name, model), schema, tools, Settings::default());
            assert_eq!(has(wire, &body), expected, "{what}");
            let told = match way {
                OutputMode::Schema => expected.0,
                OutputMode::Tool => expected.1,
                OutputMode::Words => expected == words,
            };
            assert!(told, "{what}: {way}");
            let sent = body["tools"].as_array().map_or(0, Vec::len);
            assert_eq!(sent, tools.len() + usize::from(expected.1), "{what}");
        }
    }
    // A tool that may not be called takes no answer.
    let forbidden = Settings { tool_choice: Some(ToolChoice::Forbidden), ..Settings::default() };
    let (body, way) = body(Chat, ("groq", "m"), closed(), &[look()], forbidden);
    assert_eq!((has(Chat, &body), way), (words, OutputMode::Words));
}

#[test]
fn the_mode_stands_beside_what_else_is_set() {
    let hard = Settings { effort: Some(Effort::High), ..Settings::default() };
    let model = ("anthropic", "claude-sonnet-5");
    let (sent, _) = body(Wire::Anthropic, model, closed(), &[], hard.clone());
    let config = &sent["output_config"];
    assert_eq!(
        (&config["effort"], &config["format"]["type"]),
        (&json!("high"), &json!("json_schema"))
    );
    let mut terse = hard;
    terse.extra = json!({"text": {"verbosity": "low"}}).as_object().unwrap().clone();
    let (sent, _) = body(Wire::Responses, ("openai", "gpt-5.6"), closed(), &[], terse);
    assert_eq!(sent["text"]["verbosity"], "low");
    assert_eq!(sent["text"]["format"]["strict"], true);
    assert_eq!(sent["reasoning"]["effort"], "high");
    // Without a strict form the vendor is told the schema as it is.
    let (sent, _) = body(Wire::Responses, ("openai", "gpt-5.6"), open(), &[], Settings::default());
    assert_eq!(sent["text"]["format"]["strict"], false);
    assert_eq!(sent["text"]["format"]["schema"], open());
}

/// A year.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Year {
    year: u16,
}

/// A server that refuses what `refuses` says, and else gives the answer in the way in which it is asked.
async fn server(
    refuses: impl Fn(&Value) -> Option<&'static str> + Send + Sync + 'static,
) -> (LoopbackServer, Arc<Mutex<Vec<&'static str>>>) {
    let refused = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&refused);
    let server = LoopbackServer::answering(move |request| {
        let body = request.json();
        if let Some(why) = refuses(&body) {
            seen.lock().unwrap().push(why);
            return Answer::json(400, &json!({"error": {"message": why}}));
        }
        let year = r#"{"year": 1851}"#;
        let (delta, end) = match has(Wire::Chat, &body) {
            (_, true, _) => {
                let call = json!({"index": 0, "id": "c", "type": "function",
                    "function": {"name": "final_answer", "arguments": year}});
                (json!({"tool_calls": [call]}), "tool_calls")
            }
            _ => (json!({"content": year}), "stop"),
        };
        let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
        Answer::sse(unnamed(&[json!({"id": "c", "choices": [choice]})]) + "data: [DONE]\n\n")
    });
    (server.await.unwrap(), refused)
}

fn local(server: &LoopbackServer) -> ChatCompletionsProvider {
    ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap()
}

#[tokio::test]
async fn what_a_server_refuses_is_learnt_once_for_all_copies() {
    const MODE: &str = "response_format json_schema is not supported";
    const TOOLS: &str = "this model does not support tools";
    let (server, refused) = server(|body| match has(Wire::Chat, body) {
        (true, ..) => Some(MODE),
        (_, true, _) => Some(TOOLS),
        _ => None,
    })
    .await;
    let provider = local(&server);
    let agent = Agent::builder(provider.clone()).build().unwrap();
    let answered = agent.run("When?").answer::<Year>().await.unwrap();
    assert_eq!((answered.value(), answered.reply().turns()), (&Year { year: 1851 }, 1));
    assert_eq!(*refused.lock().unwrap(), [MODE, TOOLS]);
    let said = answered.reply().transcript().messages().first().unwrap().text();
    assert_eq!(said, "When?", "words are added to what is sent alone");

    let copy = Agent::builder(provider).build().unwrap();
    copy.run("When?").answer::<Year>().await.unwrap();
    assert_eq!((refused.lock().unwrap().len(), server.requests().len()), (2, 4));
}

#[tokio::test]
async fn a_schema_that_is_refused_says_nothing_of_others() {
    const LARGE: &str = "Invalid schema for response_format 'answer'";
    let (server, refused) = server(|body| {
        let large = body.to_string().contains("A large schema");
        (has(Wire::Chat, body).0 && large).then_some(LARGE)
    })
    .await;
    /// A large schema.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Large {
        year: u16,
    }
    let agent = Agent::builder(local(&server)).build().unwrap();
    agent.run("When?").answer::<Large>().await.unwrap();
    agent.run("When?").answer::<Year>().await.unwrap();
    assert_eq!(refused.lock().unwrap().len(), 1);
    let used = server.requests();
    let used: Vec<_> = used.iter().map(|request| has(Wire::Chat, &request.json()).0).collect();
    assert_eq!(used, [true, false, true]);
}

#[tokio::test]
async fn another_failure_teaches_nothing() {
    let (server, refused) = server(|_| Some("the prompt is too long")).await;
    let agent = Agent::builder(local(&server)).build().unwrap();
    let stopped = agent.run("When?").answer::<Year>().await.unwrap_err();
    assert_eq!((stopped.outcome(), refused.lock().unwrap().len()), (Outcome::Failed, 1));
}

#[tokio::test]
async fn a_call_of_the_tool_is_the_answer_in_words() {
    let model = ScriptedProvider::new([
        reply().call("final_answer", json!({"year": "soon"})),
        reply().call("final_answer", json!({"year": 1851})),
    ]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let mut text = String::new();
    let run = agent.run("When?").on_event(|event| match event {
        Event::Text(words) => text.push_str(words),
        Event::TurnStarted { .. } => text.clear(),
        Event::ToolCall(call) => panic!("{call:?}"),
        _ => {}
    });
    let answered = run.answer::<Year>().await.unwrap();
    assert_eq!(answered.value(), &Year { year: 1851 });
    let reply = answered.reply();
    assert_eq!((reply.text(), &*text), (r#"{"year":1851}"#, reply.text()));
    assert_eq!(reply.transcript().messages().iter().flat_map(Message::calls).count(), 0);
    assert_eq!(model.requests()[1].last_text().matches("/year").count(), 1);
}

/// What was sent once is the beginning of what is sent next, within a run.
#[test]
fn words_after_a_message_keep_the_bytes_that_were_sent() {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("When?")).unwrap();
    let answer = OutputSchema::new("final_answer", closed(), 0);
    let options = chat::Options { answer_way: Some(OutputMode::Words), ..chat::Options::new("m") };
    let sent = EncodedPrefix::default();
    let first = {
        let request = Request::new(&transcript).unwrap().with_answer(Some(&answer));
        chat::encode(&request.with_sent(Some(&sent)), &options).unwrap()
    };
    transcript.push(Message::assistant([harness::Block::text("Soon.")])).unwrap();
    transcript.push(Message::user("No.")).unwrap();
    let request = Request::new(&transcript).unwrap().with_answer(Some(&answer));
    let again = chat::encode(&request.clone().with_sent(Some(&sent)), &options).unwrap();
    assert_eq!(again, chat::encode(&request, &options).unwrap());
    let common = first.len() - "]}".len();
    assert_eq!(again[..common], first[..common]);
    // The next run asks for words, and nothing of the old ones is left.
    let plain = Request::new(&transcript).unwrap().with_sent(Some(&sent));
    let plain = String::from_utf8(chat::encode(&plain, &options).unwrap()).unwrap();
    assert!(!plain.contains("JSON Schema"), "{plain}");
}
