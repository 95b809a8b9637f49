//! Servers of one's own, as they are when a program first talks to them: they refuse members, pictures and ways of asking,
//! in turn and in the middle of a stream, and their window is small.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use harness::{
    Agent, Block, ChatCompletionsProvider, Event, Media, Message, OpenAIProvider, Provider, Role,
    SideEffects, Tool, ToolContent,
    journal::MemoryJournal,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer, ReceivedRequest, chat, responses},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const SUMMARY: &str = "## Goals\n- none\n## Decisions\n- none\n## Open work\n- none\n\
    ## Names and ids\n- none\n## Tried and failed\n- none\n";

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Seen {
    animal: String,
}

fn heron() -> Seen {
    Seen { animal: "heron".into() }
}

fn said(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

/// A gateway has accepted the request before the server behind it refuses.
fn said_in_stream(message: &str) -> Answer {
    let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
    Answer::sse(format!("data: {error}\n\n"))
}

fn camera() -> Tool {
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    Tool::new("look", "Looks.", schema, SideEffects::NONE, |_, _| {
        let picture = Media::from_bytes("image/png", PNG);
        Box::pin(async move { Ok(vec![ToolContent::from("Seen."), picture.into()].into()) })
    })
}

fn pictures(body: &str) -> usize {
    body.matches("iVBORw0KGgo").count()
}

/// How many tokens a request has at these servers.
fn tokens(body: &str) -> u64 {
    u64::try_from(body.len() / 4 + 1_000 * pictures(body)).unwrap()
}

fn full(tokens: u64) -> Option<String> {
    (tokens > 8_192).then(|| {
        format!("This model's maximum context length is 8192 tokens. However, you requested {tokens} tokens.")
    })
}

fn is_summary_request(body: &str) -> bool {
    body.contains("The room for this conversation is nearly used up")
}

fn to_chat(server: &LoopbackServer) -> ChatCompletionsProvider {
    let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    let builder = builder.silence_after_stop(Duration::from_millis(50));
    builder.build().unwrap().with_retry(RetryPolicy::none())
}

fn to_responses(server: &LoopbackServer) -> OpenAIProvider {
    let builder = OpenAIProvider::builder().base_url(server.url()).api_key("k").model("m");
    builder.build().unwrap().with_retry(RetryPolicy::none())
}

/// What a server that takes little says instead of an answer, each time in other words.
fn strict(body: &Value) -> Option<Answer> {
    if body.get("stream_options").is_some() {
        return Some(said(400, "property 'stream_options' is unsupported"));
    }
    if body.get("store").is_some() {
        return Some(said(422, "store: Extra inputs are not permitted"));
    }
    if body["tools"][0].get("strict").is_some() {
        return Some(said(400, "Unknown parameter: 'tools[0].strict'."));
    }
    full(tokens(&body.to_string())).map(|words| said(400, &words))
}

/// A call, and the animal once the picture was taken. Chat Completions go without an end, on an open connection.
fn answer(request: &ReceivedRequest) -> Answer {
    let (text, body) = (request.text(), request.json());
    let is_chat = request.path().ends_with("/completions");
    let messages = body[if is_chat { "messages" } else { "input" }].as_array().unwrap();
    let asked = messages.iter().rposition(|it| it.to_string().contains("What is it?"));
    let has_looked =
        messages.iter().skip(asked.unwrap_or(0)).any(|it| it.to_string().contains("Seen."));
    let at = json!({"at": "a"});
    let words = match (is_summary_request(&text), has_looked) {
        (true, _) => Some(SUMMARY),
        (_, true) => Some("It is this:\n```json\n{\"animal\": \"heron\"}\n```"),
        (_, false) => None,
    };
    if !is_chat {
        let answer = words.map_or_else(
            || responses::body().call("c", "look", at),
            |words| responses::body().text(words),
        );
        return answer.usage(tokens(&text), 20).answer();
    }
    let answer = words
        .map_or_else(|| chat::body().call("c", "look", at.clone()), |it| chat::body().text(it));
    let answer = answer.usage(tokens(&text), 20).without_done().to_string();
    let end = answer.len();
    Answer::sse(answer).stall_at(end)
}

#[tokio::test]
async fn a_small_strict_server_without_ends_gives_typed_answers_after_pictures() {
    for (wire, refused) in [("chat", &["stream_options"][..]), ("responses", &["store", "strict"])]
    {
        let answering =
            |request: &ReceivedRequest| strict(&request.json()).unwrap_or_else(|| answer(request));
        let server = LoopbackServer::answering(answering).await.unwrap();
        let journal = MemoryJournal::new();
        // Each process learns again what its server refuses.
        for process in 0..2 {
            let provider: Arc<dyn Provider> = match wire {
                "chat" => Arc::new(to_chat(&server)),
                _ => Arc::new(to_responses(&server)),
            };
            let dropped = Arc::new(Mutex::new(Vec::new()));
            let agent = Agent::builder(provider).tools([camera()]).build().unwrap();
            let mut chat = agent.open(&journal, "a").await.unwrap();
            for turn in 0..4 {
                let seen = Arc::clone(&dropped);
                let sent = chat.send(format!("{} What is it?", "word ".repeat(1_400)));
                let sent = sent.on_event(move |event| {
                    if let Event::ParameterDropped { parameter, .. } = event {
                        seen.lock().unwrap().push(parameter.to_owned());
                    }
                });
                let seen = sent.answer::<Seen>().await;
                let seen = seen.unwrap_or_else(|err| panic!("{wire} {process} {turn}: {err}"));
                assert_eq!(seen.value(), &heron(), "{wire}");
            }
            assert_eq!(*dropped.lock().unwrap(), refused, "{wire}");
            assert!(chat.context().summed_up > 0, "{wire}");
        }
    }
}

#[tokio::test]
async fn a_way_to_ask_that_is_refused_in_the_stream_is_not_used_again() {
    let server = LoopbackServer::answering(|request: &ReceivedRequest| {
        let body = request.json();
        match (body.get("response_format").is_some(), body.get("tools").is_some()) {
            (true, _) => said_in_stream("response_format json_schema is not supported"),
            (_, true) => said_in_stream("this model does not support tools"),
            _ => chat::body().text("{\"animal\": \"heron\"}").answer(),
        }
    });
    let server = server.await.unwrap();
    let agent = Agent::builder(to_chat(&server)).build().unwrap();
    for requests in [3, 4] {
        let seen = agent.run("What is it?").answer::<Seen>().await.unwrap();
        assert_eq!((seen.value(), server.requests().len()), (&heron(), requests));
    }
}

/// A server may count only what was not in its cache: then the count in a refusal is many times the estimate.
#[tokio::test]
async fn a_full_window_is_made_smaller_although_the_server_has_counted_little() {
    for (in_stream, counts) in [(false, true), (true, true), (false, false)] {
        let server = LoopbackServer::answering(move |request: &ReceivedRequest| {
            let text = request.text();
            let says = |words: &str| match in_stream {
                true => said_in_stream(words),
                false => said(400, words),
            };
            if let Some(words) = full(tokens(&text)) {
                return says(&words);
            }
            let words = if is_summary_request(&text) { SUMMARY } else { &"so ".repeat(900) };
            let counted = if counts { tokens(&text) } else { 30 };
            chat::body().text(words).usage(counted, 20).answer()
        });
        let server = server.await.unwrap();
        let agent = Agent::builder(to_chat(&server)).build().unwrap();
        let mut chat = agent.chat();
        for turn in 0..20 {
            let reply = chat.send("And?").await;
            reply.unwrap_or_else(|err| panic!("{in_stream} {counts} {turn}: {err}"));
        }
        assert!(chat.context().summed_up > 0);
    }
}

#[tokio::test]
async fn a_conversation_goes_on_where_a_server_takes_no_pictures_and_its_window_gets_full() {
    for (status, words) in [
        (400, "this model does not support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (400, "messages.2.content.1.image: Could not process image"),
    ] {
        let server = LoopbackServer::answering(move |request: &ReceivedRequest| {
            let text = request.text();
            if pictures(&text) > 0 {
                return said(status, words);
            }
            if let Some(words) = full(tokens(&text)) {
                return said(400, &words);
            }
            let is_new =
                request.json()["messages"].as_array().unwrap().last().unwrap()["role"] == "user";
            let body = match (is_summary_request(&text), is_new && text.contains("Look.")) {
                (true, _) => chat::body().text(SUMMARY),
                (_, true) => chat::body().call("c", "look", json!({"at": "a"})),
                _ => chat::body().text("Yes."),
            };
            body.usage(tokens(&text), 20).answer()
        });
        let server = server.await.unwrap();
        let agent = Agent::builder(to_chat(&server)).tools([camera()]).build().unwrap();
        let mut chat = agent.chat();
        let picture = Block::Image(Media::from_bytes("image/png", PNG));
        chat.send(Message::new(Role::User, [Block::text("What is it?"), picture])).await.unwrap();
        for turn in 0..8 {
            let reply = chat.send(format!("{} Look.", "word ".repeat(1_000))).await;
            reply.unwrap_or_else(|err| panic!("{words}: {turn}: {err}"));
        }
        assert!(chat.context().summed_up > 0, "{words}");
    }
}

#[tokio::test]
async fn a_refusal_is_read_in_bounded_time() {
    for part in ["loc[", "loc", "loc: ", "('loc', ", "`a` ", "#/"] {
        let words = format!("unknown {}]", part.repeat(200_000 / part.len()));
        let server = LoopbackServer::answering(move |_: &ReceivedRequest| said(400, &words));
        let server = server.await.unwrap();
        let agent = Agent::builder(to_chat(&server)).build().unwrap();
        let begun = Instant::now();
        agent.run("?").await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(20), "{part}: {:?}", begun.elapsed());
    }
}
