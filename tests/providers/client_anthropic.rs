//! Anthropic's provider over a real socket: what it sends, how it reads answers, and which
//! connections it leaves open.

use std::time::Duration;

use futures_util::StreamExt as _;
use harness::{
    AnthropicProvider, Error, ErrorKind, Message, Provider as _, StopReason, StreamEvent,
    Transcript,
    client::Timeouts,
    policy::RetryPolicy,
    provider::{ProviderResponse, Request, accumulate},
    testing::{Answer, ClosedBy, LoopbackServer, Point, anthropic},
};
use harness_test_support::refusing::RefusingPort;
use serde_json::json;

fn asked() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    transcript
}

fn provider(server: &LoopbackServer) -> AnthropicProvider {
    provider_at(&server.url())
}

fn provider_at(url: &str) -> AnthropicProvider {
    let clocks = Timeouts {
        connect: Duration::from_secs(5),
        first_event: Duration::from_millis(300),
        between_events: Duration::from_millis(300),
        ..Timeouts::default()
    };
    AnthropicProvider::builder()
        .api_key("sk-secret-1")
        .base_url(url)
        .model("claude-test")
        .timeouts(clocks)
        .build()
        .unwrap()
        .with_retry(RetryPolicy::none())
}

async fn ask(provider: &AnthropicProvider) -> Result<ProviderResponse, Error> {
    let transcript = asked();
    accumulate(provider.stream(Request::new(&transcript)?.with_system(Some("Be brief.")))).await
}

async fn answered(answer: impl Into<Answer>) -> Result<ProviderResponse, Error> {
    let server = LoopbackServer::start([answer]).await.unwrap();
    ask(&provider(&server)).await
}

#[tokio::test]
async fn a_question_is_asked_and_answered() {
    let body = anthropic::body().text("Cold.").call("toolu_1", "weather", json!({"city": "Oslo"}));
    let server = LoopbackServer::start([body.usage(120, 40)]).await.unwrap();
    let answer = ask(&provider(&server)).await.unwrap();

    let message = answer.message.unwrap();
    assert_eq!(message.text(), "Cold.");
    assert_eq!(message.calls().next().unwrap().arguments(), r#"{"city":"Oslo"}"#);
    assert_eq!(answer.stop, StopReason::ToolCalls);
    assert_eq!((answer.usage.input, answer.usage.output), (Some(120), Some(40)));

    let request = &server.requests()[0];
    assert_eq!((request.method(), request.path()), ("POST", "/v1/messages"));
    assert_eq!(request.header("x-api-key"), Some("sk-secret-1"));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    let body = request.json();
    assert_eq!(body["model"], "claude-test");
    assert_eq!(body["stream"], true);
    assert_eq!(body["system"][0]["text"], "Be brief.");
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "Oslo?"}]}])
    );
}

#[tokio::test]
async fn one_connection_serves_many_questions() {
    let server =
        LoopbackServer::start((0..4).map(|_| anthropic::body().text("Cold."))).await.unwrap();
    let provider = provider(&server);
    for _ in 0..4 {
        ask(&provider).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn nothing_is_asked_before_the_first_poll_and_dropping_closes_the_socket() {
    let body = anthropic::body().text("Cold.").to_string();
    let server =
        LoopbackServer::start([Answer::sse(body.clone()).stall_at(body.len() / 2)]).await.unwrap();
    let provider = provider(&server);
    let transcript = asked();
    drop(provider.stream(Request::new(&transcript).unwrap()));
    assert_eq!(server.connections(), 0);

    let mut stream = provider.stream(Request::new(&transcript).unwrap());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Started { .. }))));
    drop(stream);
    assert_eq!(server.closed(0).await, ClosedBy::Client);
}

#[tokio::test]
async fn a_refusal_by_status_keeps_what_the_vendor_says() {
    let answer = anthropic::error(529, "overloaded_error", "Overloaded")
        .header("retry-after", "7")
        .header("x-should-retry", "true");
    let err = answered(answer).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Api);
    assert_eq!((err.status(), err.code()), (Some(529), Some("overloaded_error")));
    assert_eq!((err.message(), err.request_id()), ("Overloaded", Some("req_01")));
    assert_eq!(err.retry_after(), Some(Duration::from_secs(7)));
    assert!(err.is_retryable());
}

#[tokio::test]
async fn a_body_of_any_shape_becomes_one_kind_of_error() {
    let html = "<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>";
    let err = answered(Answer::bytes(502, "text/html", html)).await.unwrap_err();
    assert_eq!((err.status(), err.message()), (Some(502), "502 Bad Gateway 502"));
    assert!(err.is_retryable());

    let err = answered(Answer::empty(401)).await.unwrap_err();
    assert_eq!((err.kind(), err.status()), (ErrorKind::Api, Some(401)));
    assert!(!err.is_retryable());

    let body = json!({"error": {"code": 429, "message": "slow"}});
    let err = answered(Answer::json(429, &body)).await.unwrap_err();
    assert_eq!((err.status(), err.code(), err.message()), (Some(429), Some("429"), "slow"));
}

#[tokio::test]
async fn an_error_inside_a_success_is_an_error() {
    let body = json!({"type": "error", "error": {"type": "api_error", "message": "no"}});
    let err = answered(Answer::json(200, &body)).await.unwrap_err();
    assert_eq!((err.kind(), err.code(), err.message()), (ErrorKind::Api, Some("api_error"), "no"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [302, 303, 307, 308] {
        let elsewhere = LoopbackServer::start([anthropic::body().text("stolen")]).await.unwrap();
        let answer = Answer::empty(status).header("location", elsewhere.url());
        let err = answered(answer).await.unwrap_err();
        assert_eq!((err.kind(), err.status()), (ErrorKind::Api, Some(status)));
        assert_eq!(elsewhere.connections(), 0, "{status}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_early_is_cut_off() {
    let body = anthropic::body().text("Cold and windy, with rain.").to_string();
    let at = body.len() / 2;
    for answer in [
        Answer::sse(body.clone()).cut_at(at),
        Answer::sse(body.clone()).until_closed().cut_at(at),
        Answer::sse(body.clone()).end_at(at),
    ] {
        let err = answered(answer).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::CutOff, "{err:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_runs_out_of_time() {
    let err = answered(Answer::sse("x").stall_at(Point::BeforeHead)).await.unwrap_err();
    assert!(err.is_timeout() && err.is_retryable(), "{err:?}");

    let body = anthropic::body().text("Cold.").to_string();
    let at = body.len() / 2;
    let err = answered(Answer::sse(body).stall_at(at)).await.unwrap_err();
    assert!(err.is_timeout() && err.message().contains("stopped coming"), "{err:?}");
}

#[tokio::test]
async fn pings_do_not_wind_the_clocks() {
    let noise = "event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(100);
    let answer = Answer::sse(noise).in_pieces(48, Duration::from_millis(100));
    let err = answered(answer).await.unwrap_err();
    assert!(err.is_timeout() && err.message().contains("said nothing"), "{err:?}");
}

#[tokio::test]
async fn a_closed_port_is_a_connect_error() {
    let refusing = RefusingPort::bind();
    let err = ask(&provider_at(&refusing.url())).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Connect);
    assert!(err.is_retryable());
}

#[tokio::test]
async fn a_key_never_prints() {
    let builder = AnthropicProvider::builder().api_key("sk-secret-1");
    let shown = format!("{builder:?} {:?}", builder.clone().build().unwrap());
    assert!(!shown.contains("sk-secret-1"), "{shown}");
    let err = builder.api_key("sk-secret-1\n").build().unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Configuration);
    assert!(!format!("{err:?}").contains("sk-secret-1"));
}
