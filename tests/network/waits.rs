//! How long a server is waited for, and how often it is asked.

use std::time::Duration;

use harness::{
    AnthropicProvider,
    client::Timeouts,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer, anthropic as wire},
};
use serde_json::json;

use super::ask;

/// Local servers write comments while their model reads a long prompt.
#[tokio::test]
async fn comments_count_as_a_sign_of_life_before_the_first_event() {
    const SHORT: Duration = Duration::from_millis(400);
    // Longer than the events, which come in pieces of the same size.
    let comment = format!(": {}\n\n", "the prompt is read ".repeat(100));
    let body = comment.repeat(12) + &wire::body().text("Cold.").to_string();
    let answer = Answer::sse(body).in_pieces(comment.len(), SHORT / 8);
    let server = LoopbackServer::start([answer]).await.expect("a server");
    let clocks = Timeouts { first_event: SHORT, ..Timeouts::default() };
    let provider =
        AnthropicProvider::builder().api_key("k").base_url(server.url()).timeouts(clocks);
    let provider = provider.build().expect("a provider").with_retry(RetryPolicy::none());
    let answer = ask(&provider).await;
    assert!(answer.is_ok(), "{:?}", answer.err());
}

#[tokio::test]
async fn a_request_that_alone_is_above_a_limit_is_sent_once() {
    for (message, tries) in [
        ("Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000.", 1),
        ("Rate limit reached: Limit: 30,000, Requested: 40,000. Please try again in 1ms.", 1),
        ("Rate limit reached: Limit 30000, Used 20000, Requested 15000. Try again in 1ms.", 2),
    ] {
        let error = json!({"error": {"message": message, "code": "rate_limit_exceeded"}});
        let answers =
            [Answer::json(429, &error), Answer::sse(wire::body().text("Cold.").to_string())];
        let server = LoopbackServer::start(answers).await.expect("a server");
        let provider = AnthropicProvider::builder().api_key("k").base_url(server.url()).build();
        let answer = ask(&provider.expect("a provider")).await;
        assert_eq!(server.requests().len(), tries, "{message}");
        match answer {
            Ok(_) => assert_eq!(tries, 2, "{message}"),
            Err(err) => assert!(err.to_string().contains("send less"), "{err}"),
        }
    }
}
