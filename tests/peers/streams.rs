//! Answers that fail in the middle, or in another form than asked for.

use std::time::Duration;

use harness::{
    Agent, Error, ErrorKind, Event, Outcome,
    policy::{FallbackProvider, RetryPolicy, RetryProvider},
    testing::{Answer, LoopbackServer, ScriptedProvider, anthropic, chat, reply},
};
use serde_json::json;

use super::agent;

/// lemonade-sdk/lemonade#2826.
#[tokio::test]
async fn an_error_without_a_frame_in_an_event_stream_is_told_in_its_words() {
    let words = "request (19185 tokens) exceeds the available context size (16384 tokens)";
    let error = json!({"error": {"code": 400, "message": words, "type": "invalid_request_error"}});
    for body in [format!("{error}"), format!("{error}\n"), format!("{error}\n\n")] {
        let server = LoopbackServer::start([Answer::sse(body.clone())]).await.unwrap();
        let stopped = agent("chat", &server).run("Oslo?").await.unwrap_err();
        let told = stopped.error().expect("why").to_string();
        assert!(told.contains(words), "{body:?}: {told}");
    }
}

/// justrach/codegraff#748, farzaa/clicky#132.
#[tokio::test]
async fn an_error_that_is_all_of_a_stream_is_told_and_asked_for_again_only_if_it_passes() {
    for (kind, tries) in [("invalid_request_error", 1), ("overloaded_error", 2)] {
        let server = LoopbackServer::answering(move |_| {
            anthropic::body().error(kind, "The words.").answer()
        });
        let server = server.await.unwrap();
        let it = harness::AnthropicProvider::builder().api_key("k").base_url(server.url());
        let policy = RetryPolicy { attempts: 2, base: Duration::ZERO, ..RetryPolicy::default() };
        let agent = Agent::builder(it.build().unwrap().with_retry(policy)).build().unwrap();
        let stopped = agent.run("Oslo?").await.unwrap_err();
        assert!(stopped.error().expect("why").to_string().contains("The words."), "{kind}");
        assert_eq!(server.requests().len(), tries, "{kind}");
    }
}

/// zirkelc/ai-retry#51, HKUDS/nanobot#4038, endolith/open-interpreter#291.
#[tokio::test]
async fn who_watches_reads_what_the_fallback_says_once() {
    let busy = || Error::new(ErrorKind::Api, "busy").with_status(529);
    let first = ScriptedProvider::new([reply().started().error(busy())]).with_name("first");
    let second = ScriptedProvider::new([reply().reasoning("Hm.").text("It is cold.")]);
    let first = RetryProvider::new(first, RetryPolicy::none());
    let agent = Agent::builder(FallbackProvider::new(first).or(second)).build().unwrap();
    let (mut read, mut thought) = (String::new(), String::new());
    let said = agent.run("Oslo?").on_event(|event| match event {
        Event::Text(text) => read.push_str(text),
        Event::Reasoning(text) => thought.push_str(text),
        _ => {}
    });
    assert_eq!(said.await.unwrap().text(), "It is cold.");
    assert_eq!((read.as_str(), thought.as_str()), ("It is cold.", "Hm."));
}

/// coder/coder#27476, librefang/librefang#3450, SWE-agent/mini-swe-agent#851.
#[tokio::test]
async fn an_answer_that_ends_after_its_thinking_is_told_by_its_reason() {
    let refused = anthropic::body().thinking("No.", "s").refusal("cyber", "Not that.").answer();
    let server = LoopbackServer::start([refused]).await.unwrap();
    let stopped = agent("anthropic", &server).run("Do it.").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Refused);
    for (reason, outcome) in [("content_filter", Outcome::Refused), ("length", Outcome::Truncated)]
    {
        let body = chat::body().reasoning("reasoning_content", "Hm.").stop(reason);
        let server = LoopbackServer::start([Answer::sse(body.to_string())]).await.unwrap();
        let stopped = agent("chat", &server).run("Do it.").await.unwrap_err();
        assert_eq!(stopped.outcome(), outcome, "{reason}");
    }
}
