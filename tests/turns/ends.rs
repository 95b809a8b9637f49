//! After a stop reason, silence is the end of an answer.

use std::{sync::atomic::Ordering, time::Duration};

use harness::{
    Agent, AnthropicProvider,
    client::ChatCompletionsProvider,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer, anthropic, chat},
    tool::{SideEffect, SideEffects},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{counting, provider, stream};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

fn without_end(events: &[Value]) -> String {
    stream(&events[..events.len() - 1])
}

/// A chat answer that is whole, without `[DONE]`.
fn said(body: &chat::ChatBody) -> String {
    body.clone().without_done().to_string()
}

/// The answer, and then nothing, on an open connection.
fn open(text: String) -> Answer {
    let end = text.len();
    Answer::sse(text).stall_at(end)
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_stop_reason_is_whole_although_its_end_does_not_come() {
    let whole = anthropic::body().text("All of it.").events();
    for (wire, text) in
        [("chat", said(&chat::body().text("All of it."))), ("anthropic", without_end(&whole))]
    {
        let server = LoopbackServer::start([open(text)]).await.unwrap();
        let agent = Agent::builder(provider(wire, &server)).build().unwrap();
        let begun = Instant::now();
        let reply = agent.run("?").await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!(reply.text(), "All of it.", "{wire}");
        let waited = begun.elapsed().as_secs();
        assert!((5..60).contains(&waited), "{wire}: {waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_although_only_signs_of_life_follow_the_stop_reason() {
    for (wire, sign) in [
        ("chat", ": keep-alive\n\n"),
        ("chat", "data: {\"choices\":[]}\n\n"),
        (
            "chat",
            "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n",
        ),
        ("anthropic", "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
    ] {
        let text = match wire {
            "chat" => said(&chat::body().call("c", "book", json!({}))),
            _ => without_end(&anthropic::body().call("c", "book", json!({})).events()),
        };
        let last = match wire {
            "chat" => chat::body().text("Booked.").answer(),
            _ => anthropic::body().text("Booked.").answer(),
        };
        let end = text.len();
        let mut first = Answer::sse(text + &sign.repeat(8));
        for at in 0..8 {
            first = first.pause_at(end + at * sign.len(), Duration::from_secs(3));
        }
        let all = end + 8 * sign.len();
        let server = LoopbackServer::start([first.stall_at(all), last]).await.unwrap();
        let (book, calls) = counting("book", WRITE);
        let agent = Agent::builder(provider(wire, &server)).tools([book]).build().unwrap();
        let begun = Instant::now();
        let reply = agent.run("Book it.").await.unwrap_or_else(|err| panic!("{sign}: {err}"));
        assert_eq!((reply.text(), calls.load(Ordering::Relaxed)), ("Booked.", 1), "{sign}");
        assert!(begun.elapsed() < Duration::from_secs(24), "{sign}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_program_sets_how_long_the_silence_is() {
    let server = LoopbackServer::start([open(said(&chat::body().text("All.")))]).await.unwrap();
    let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    let provider = builder.silence_after_stop(Duration::from_secs(40)).build().unwrap();
    let begun = Instant::now();
    let agent = Agent::builder(provider).build().unwrap();
    assert_eq!(agent.run("?").await.unwrap().text(), "All.");
    assert!(begun.elapsed() >= Duration::from_secs(40), "{:?}", begun.elapsed());
}

/// The pieces, each a while after the one before.
fn slow(pieces: &[String]) -> Answer {
    let mut end = 0;
    pieces.iter().fold(Answer::sse(pieces.concat()), |answer, piece| {
        let begin = end;
        end += piece.len();
        if begin > 0 { answer.pause_at(begin, Duration::from_secs(20)) } else { answer }
    })
}

fn stopped_chunk(delta: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": "stop"});
    stream(&[json!({"id": "1", "object": "chat.completion.chunk", "choices": [choice]})])
}

/// Older endpoints of Gemini give a stop reason with each chunk, and gateways one in the first event of Messages.
#[tokio::test(start_paused = true)]
async fn content_behind_a_stop_reason_is_waited_for() {
    let said = |words: &str| stopped_chunk(&json!({"role": "assistant", "content": words}));
    let chunks = [said("One, "), said("two, "), said("three."), "data: [DONE]\n\n".to_owned()];
    let mut events = anthropic::body().text("One, two, three.").events();
    events[0]["message"]["stop_reason"] = json!("end_turn");
    let events: Vec<String> = events.into_iter().map(|event| stream(&[event])).collect();
    for (wire, pieces) in [("chat", &chunks[..]), ("anthropic", &events[..])] {
        let server = LoopbackServer::start([slow(pieces)]).await.unwrap();
        let agent = Agent::builder(provider(wire, &server)).build().unwrap();
        let reply = agent.run("?").await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!(reply.text(), "One, two, three.", "{wire}");
    }
    // Without its end, such an answer is not whole.
    let server = LoopbackServer::start([open(chunks[..2].concat())]).await.unwrap();
    let agent = Agent::builder(provider("chat", &server)).build().unwrap();
    let stopped = agent.run("?").await.unwrap_err();
    assert!(stopped.error().unwrap().is_timeout(), "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn pieces_of_a_call_behind_a_stop_reason_are_waited_for() {
    let call = |function: Value| {
        let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
        stopped_chunk(&json!({"tool_calls": [call]}))
    };
    let pieces = [
        call(json!({"name": "book", "arguments": "{\"city\":"})),
        call(json!({"arguments": "\"Os"})),
        call(json!({"arguments": "lo\"}"})),
        "data: [DONE]\n\n".to_owned(),
    ];
    let last = chat::body().text("Booked.").answer();
    let server = LoopbackServer::start([slow(&pieces), last]).await.unwrap();
    let (book, calls) = counting("book", WRITE);
    let agent = Agent::builder(provider("chat", &server)).tools([book]).build().unwrap();
    let reply = agent.run("Book it.").await.unwrap();
    assert_eq!((reply.text(), calls.load(Ordering::Relaxed)), ("Booked.", 1));
    let body = server.requests()[1].text();
    assert!(body.contains("Oslo"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn without_a_stop_reason_silence_is_an_error_as_before() {
    let begun = anthropic::body().text("All of it.").events();
    let cut = stream(&begun[..begun.len() - 2]);
    let server = LoopbackServer::start([open(cut)]).await.unwrap();
    let builder = AnthropicProvider::builder().api_key("k").base_url(server.url()).model("m");
    let provider = builder.build().unwrap().with_retry(RetryPolicy::none());
    let agent = Agent::builder(provider).build().unwrap();
    let stopped = agent.run("?").await.unwrap_err();
    assert!(stopped.error().unwrap().is_timeout(), "{stopped}");
}

#[tokio::test]
async fn an_answer_with_a_stop_reason_is_whole_although_the_stream_ends_without_its_last_event() {
    for (wire, text) in [
        ("chat", said(&chat::body().call("c", "book", json!({})))),
        ("anthropic", without_end(&anthropic::body().call("c", "book", json!({})).events())),
    ] {
        let last = match wire {
            "chat" => chat::body().text("Booked.").answer(),
            _ => anthropic::body().text("Booked.").answer(),
        };
        let server = LoopbackServer::start([Answer::sse(text), last]).await.unwrap();
        let (book, calls) = counting("book", WRITE);
        let agent = Agent::builder(provider(wire, &server)).tools([book]).build().unwrap();
        let reply = agent.run("Book it.").await.unwrap_or_else(|err| panic!("{wire}: {err}"));
        assert_eq!((reply.text(), calls.load(Ordering::Relaxed)), ("Booked.", 1), "{wire}");
    }
}
