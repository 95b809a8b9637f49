//! The four timeouts over a real socket: each has a default and an error of its own, and ends at
//! the right events.

use std::time::Duration;

use harness::{
    AnthropicProvider, Error, Message, Provider as _, Transcript,
    client::Timeouts,
    policy::RetryPolicy,
    provider::{Request, accumulate},
    testing::{Answer, LoopbackServer, Point, anthropic},
};

const SHORT: Duration = Duration::from_millis(150);

async fn fails(answer: Answer, clocks: Timeouts) -> Error {
    let server = LoopbackServer::start([answer]).await.unwrap();
    let err = ask(&server.url(), clocks).await;
    server.shutdown().await;
    err
}

async fn ask(url: &str, clocks: Timeouts) -> Error {
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).timeouts(clocks);
    let provider = provider.build().unwrap().with_retry(RetryPolicy::none());
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let result = accumulate(provider.stream(Request::new(&transcript).unwrap())).await;
    let err = result.unwrap_err();
    assert!(err.is_timeout() && err.is_retryable(), "{err:?}");
    err
}

#[test]
fn the_defaults_leave_time_to_think_and_end_what_never_would() {
    let Timeouts { connect, first_event, between_events, whole_call } = Timeouts::default();
    let seconds = [connect, first_event, between_events, whole_call].map(|time| time.as_secs());
    assert_eq!(seconds, [10, 300, 120, 3600]);
}

// A listener that accepts nobody: once its queue is full, the system leaves whoever comes without
// an answer. Other systems than Linux refuse instead.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_server_is_not_reached() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    let mut in_vain = 0;
    while in_vain < 2 {
        match tokio::time::timeout(SHORT, tokio::net::TcpStream::connect(address)).await {
            Ok(stream) => queue.push(stream.unwrap()),
            Err(_) => in_vain += 1,
        }
    }
    let clocks = Timeouts { connect: SHORT, first_event: SHORT * 20, ..Timeouts::default() };
    let err = ask(&format!("http://{address}"), clocks).await;
    assert_eq!(err.message(), "the server was not reached within 150ms");
}

#[tokio::test]
async fn nothing_comes() {
    let clocks = Timeouts { first_event: SHORT, ..Timeouts::default() };
    let err = fails(Answer::sse("").stall_at(Point::BeforeHead), clocks).await;
    assert_eq!(err.message(), "the server said nothing for 150ms");
    let err = fails(Answer::sse("x").stall_at(0), clocks).await;
    assert_eq!(err.message(), "the server said nothing for 150ms");
}

#[tokio::test]
async fn nothing_comes_but_comments_and_pings() {
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let slowly = |body: String| Answer::sse(body).in_pieces(ping.len(), SHORT / 4);
    let clocks = Timeouts { first_event: SHORT, ..Timeouts::default() };
    let err = fails(slowly(ping.repeat(20)), clocks).await;
    assert_eq!(err.message(), "the server said nothing for 150ms");

    // In the middle of an answer, comments count as little.
    let noise = format!(": still here\n\n{ping}");
    let begun = anthropic::body().text("Cold and windy.").cut_in_block().to_string();
    let clocks = Timeouts { between_events: SHORT, ..Timeouts::default() };
    let err = fails(slowly(begun + &noise.repeat(20)), clocks).await;
    assert_eq!(err.message(), "the answer stopped coming: no event for 150ms");
}

#[tokio::test]
async fn the_answer_stops_coming() {
    let body = anthropic::body().text("Cold and windy.").to_string();
    let clocks = Timeouts { between_events: SHORT, ..Timeouts::default() };
    let half = body.len() / 2;
    let err = fails(Answer::sse(body).stall_at(half), clocks).await;
    assert_eq!(err.message(), "the answer stopped coming: no event for 150ms");
}

#[tokio::test]
async fn the_answer_never_ends() {
    let body = anthropic::body().text("la ".repeat(1000)).to_string();
    let clocks = Timeouts { whole_call: SHORT, ..Timeouts::default() };
    let err = fails(Answer::sse(body).in_pieces(256, SHORT / 10), clocks).await;
    assert_eq!(err.message(), "the answer was not complete after 150ms");
}

#[tokio::test]
async fn a_clock_without_end_is_no_clock() {
    let never = Duration::MAX;
    let clocks = Timeouts {
        connect: Duration::from_secs(5),
        first_event: never,
        between_events: never,
        whole_call: never,
    };
    let server = LoopbackServer::start([anthropic::body().text("Cold.")]).await.unwrap();
    let provider =
        AnthropicProvider::builder().api_key("k").base_url(server.url()).timeouts(clocks);
    let provider = provider.build().unwrap();
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    assert!(accumulate(provider.stream(Request::new(&transcript).unwrap())).await.is_ok());
}
