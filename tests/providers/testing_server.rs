//! The loopback server, tested with another client: what arrives at each fault, what the server
//! notices of the client, and that nothing of it is left.

use std::{
    error::Error as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
    time::Duration,
};

use harness::testing::{Answer, ClosedBy, Gate, LoopbackServer, Point, anthropic};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Handle,
};

const BODY: &str = "data: one\n\ndata: two\n\ndata: three\n\n";

fn client() -> reqwest::Client {
    static TLS: Once = Once::new();
    TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// What a client sees of one answer.
#[derive(Debug)]
struct Seen {
    status: u16,
    body: String,
    /// The chunks in which the body came.
    chunks: usize,
    /// The innermost reason why it ended early.
    fault: Option<String>,
}

async fn see(answer: Answer) -> Result<Seen, reqwest::Error> {
    let server = LoopbackServer::start([answer]).await.unwrap();
    let seen = read(client().get(server.url()).send().await?).await;
    server.assert_finished();
    Ok(seen)
}

/// Fails instead of hanging.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("nothing came for 30 s")
}

async fn read(mut response: reqwest::Response) -> Seen {
    let status = response.status().as_u16();
    let mut seen = Seen { status, body: String::new(), chunks: 0, fault: None };
    loop {
        match soon(response.chunk()).await {
            Ok(Some(bytes)) => {
                seen.body.push_str(std::str::from_utf8(&bytes).unwrap());
                seen.chunks += 1;
            }
            Ok(None) => return seen,
            Err(err) => {
                seen.fault = Some(innermost(&err));
                return seen;
            }
        }
    }
}

fn innermost(err: &reqwest::Error) -> String {
    let mut cause = err.source().unwrap();
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[tokio::test]
async fn a_whole_answer_arrives_however_it_is_framed() {
    let answer = Answer::sse(BODY).header("x-request-id", "r1");
    for answer in [answer.clone(), answer.clone().with_length(), answer.until_closed()] {
        let seen = see(answer).await.unwrap();
        assert_eq!((seen.status, seen.body.as_str(), seen.fault), (200, BODY, None));
    }
}

#[tokio::test]
async fn a_body_is_spoken_in_pieces() {
    for answer in [Answer::sse(BODY), Answer::sse(BODY).with_length()] {
        let seen = see(answer.in_pieces(5, Duration::from_millis(2))).await.unwrap();
        assert_eq!((seen.body.as_str(), seen.fault), (BODY, None));
        // A client may find several pieces waiting for it, but hardly all of them.
        assert!(seen.chunks > 1, "all came at once");
    }
}

#[tokio::test]
async fn a_cut_is_seen_to_be_one_unless_closing_is_how_the_body_ends() {
    for at in [0, 1, 17, BODY.len() - 1] {
        for answer in [Answer::sse(BODY), Answer::sse(BODY).with_length()] {
            let seen = see(answer.cut_at(at)).await.unwrap();
            assert_eq!(seen.body, BODY[..at]);
            assert!(seen.fault.is_some(), "cut at {at}");
        }
        let seen = see(Answer::sse(BODY).until_closed().cut_at(at)).await.unwrap();
        assert_eq!((seen.body.as_str(), seen.fault), (&BODY[..at], None));
        let seen = see(Answer::sse(BODY).end_at(at)).await.unwrap();
        assert_eq!((seen.body.as_str(), seen.fault), (&BODY[..at], None));
    }
    // Behind the end is at the end: chunks that are all there still lack their last.
    assert!(see(Answer::sse(BODY).cut_at(9_999)).await.unwrap().fault.is_some());
}

#[tokio::test]
async fn a_reset_is_told_from_a_cut() {
    let gate = Gate::new();
    // The reset waits until the client has what was said before it.
    let answer = Answer::sse(BODY).wait_at(11, &gate).reset_at(11);
    let server = LoopbackServer::start([answer]).await.unwrap();
    let mut response = client().get(server.url()).send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), BODY[..11]);
    gate.open();
    let fault = innermost(&response.chunk().await.unwrap_err());
    assert!(fault.contains("reset by peer"), "{fault}");
    assert_eq!(server.closed(0).await, ClosedBy::Server);
}

#[tokio::test]
async fn a_connection_can_fail_before_the_head() {
    let err = see(Answer::empty(200).cut_at(Point::BeforeHead)).await.unwrap_err();
    assert!(err.is_request() && !innermost(&err).contains("reset"), "{err:?}");
    let err = see(Answer::empty(200).reset_at(Point::BeforeHead)).await.unwrap_err();
    assert!(innermost(&err).contains("reset by peer"), "{err:?}");
}

#[tokio::test]
async fn a_stall_keeps_the_connection_until_the_client_gives_up() {
    let answers = [Answer::sse(BODY).stall_at(17), Answer::sse(BODY).stall_at(Point::BeforeHead)];
    let server = LoopbackServer::start(answers).await.unwrap();

    let mut response = client().get(server.url()).send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), BODY[..17]);
    assert_eq!(server.open_connections(), 1);
    drop(response);
    assert_eq!(server.closed(0).await, ClosedBy::Client);

    let asking = tokio::spawn(client().get(server.url()).send());
    assert_eq!(server.received(1).await.connection(), 1);
    assert_eq!(server.open_connections(), 1);
    asking.abort();
    assert_eq!(server.closed(1).await, ClosedBy::Client);
    assert_eq!((server.connections(), server.open_connections()), (2, 0));
    server.assert_finished();
}

#[tokio::test]
async fn a_client_that_leaves_during_a_pause_is_noticed() {
    let slow = Answer::sse(BODY).in_pieces(1, Duration::from_secs(3600));
    let server = LoopbackServer::start([slow]).await.unwrap();
    let mut response = client().get(server.url()).send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "d");
    drop(response);
    assert_eq!(server.closed(0).await, ClosedBy::Client);
}

#[tokio::test]
async fn requests_are_recorded_and_the_connection_is_kept() {
    let server = LoopbackServer::answering(|request| {
        Answer::json(200, &json!({"path": request.path(), "asked": request.json()["n"]}))
    })
    .await
    .unwrap();
    let client = client();
    for n in 0..3 {
        let asking = client.post(format!("{}/v1/messages?n={n}", server.url()));
        let asking = asking.header("X-Api-Key", "sk-123").body(format!(r#"{{"n":{n}}}"#));
        let body = asking.send().await.unwrap().text().await.unwrap();
        assert_eq!(body, format!(r#"{{"path":"/v1/messages?n={n}","asked":{n}}}"#));
    }
    let requests = server.requests();
    assert_eq!((requests.len(), server.connections(), server.open_connections()), (3, 1, 1));
    assert_eq!((requests[1].method(), requests[1].path()), ("POST", "/v1/messages?n=1"));
    assert_eq!(requests[1].header("x-api-key"), Some("sk-123"));
    assert_eq!((requests[1].body(), requests[1].connection()), (&br#"{"n":1}"#[..], 0));
    assert!(!format!("{requests:?}").contains("sk-123"), "a secret prints");

    drop(client);
    assert_eq!(server.closed(0).await, ClosedBy::Client);
}

#[tokio::test]
async fn a_gate_controls_which_answer_is_first() {
    let gate = Gate::new();
    let answers = [
        Answer::bytes(200, "text/plain", "first").wait_at(Point::BeforeHead, &gate),
        Answer::bytes(200, "text/plain", "second"),
    ];
    let server = LoopbackServer::start(answers).await.unwrap();
    let first = tokio::spawn(client().get(server.url()).send());
    gate.reached().await;
    assert_eq!(see_text(&server).await, "second");
    gate.open();
    assert_eq!(first.await.unwrap().unwrap().text().await.unwrap(), "first");
}

async fn see_text(server: &LoopbackServer) -> String {
    client().get(server.url()).send().await.unwrap().text().await.unwrap()
}

/// The message with which `assert_finished` fails.
fn complaint(server: &LoopbackServer) -> String {
    let failed = catch_unwind(AssertUnwindSafe(|| server.assert_finished())).unwrap_err();
    *failed.downcast::<String>().unwrap()
}

#[tokio::test]
async fn a_request_beyond_the_script_is_answered_and_told() {
    let server = LoopbackServer::start([Answer::empty(204)]).await.unwrap();
    assert!(complaint(&server).contains("asked 0 times. Never answered:\n  answer 1: 204"));
    assert_eq!(client().get(server.url()).send().await.unwrap().status(), 204);
    server.assert_finished();
    let response = client().get(server.url() + "/more").send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(response.text().await.unwrap().contains("nothing is left in the script"));
    assert!(complaint(&server).contains("nothing is left in the script for GET /more"));
}

#[tokio::test]
async fn an_assertion_in_the_closure_fails_the_test_and_not_the_server() {
    let server = LoopbackServer::answering(|request| {
        assert_eq!(request.path(), "/right");
        Answer::empty(204)
    })
    .await
    .unwrap();
    for (path, status) in [("/wrong", 400), ("/right", 204)] {
        let response = client().get(server.url() + path).send().await.unwrap();
        assert_eq!(response.status(), status);
    }
    assert!(complaint(&server).contains("/wrong"));
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    let server = LoopbackServer::start([] as [Answer; 0]).await.unwrap();
    let mut socket = TcpStream::connect(address(&server)).await.unwrap();
    socket.write_all(b"\x16\x03\x01 hello?\r\n\r\n").await.unwrap();
    assert_eq!(server.closed(0).await, ClosedBy::Server);
    assert!(complaint(&server).contains("this is no request"));
}

fn address(server: &LoopbackServer) -> String {
    server.url().trim_start_matches("http://").to_owned()
}

/// Opens three connections: one idle, one stalled in its answer, one waiting for a gate.
async fn busy() -> (LoopbackServer, [TcpStream; 3]) {
    let answers = [
        Answer::empty(204),
        Answer::sse(BODY).stall_at(3),
        Answer::sse(BODY).wait_at(Point::BeforeHead, &Gate::new()),
    ];
    let server = LoopbackServer::start(answers).await.unwrap();
    let mut sockets = Vec::new();
    for number in 0..3 {
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert_eq!(server.received(number).await.connection(), number);
        sockets.push(socket);
    }
    assert_eq!(server.open_connections(), 3);
    (server, sockets.try_into().unwrap())
}

/// That every connection is closed and nobody takes a new one.
async fn assert_gone(address: &str, sockets: [TcpStream; 3]) {
    for mut socket in sockets {
        let mut rest = Vec::new();
        // A reset is as good as an end.
        let _ = soon(socket.read_to_end(&mut rest)).await;
        assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "an answer that never ends has ended");
    }
    assert!(TcpStream::connect(address).await.is_err(), "somebody still listens");
}

#[tokio::test]
async fn after_a_drop_nothing_listens_and_no_task_is_left() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (server, sockets) = busy().await;
    assert!(Handle::current().metrics().num_alive_tasks() > before);
    let address = address(&server);
    drop(server);
    assert_gone(&address, sockets).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test]
async fn after_a_shutdown_nothing_listens_and_no_task_is_left() {
    let before = Handle::current().metrics().num_alive_tasks();
    let (server, sockets) = busy().await;
    let address = address(&server);
    soon(server.shutdown()).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
    assert_gone(&address, sockets).await;
}

#[tokio::test]
async fn a_shutdown_speaks_the_answer_to_its_end() {
    // More than fits into the buffers of the sockets, so that the server is still speaking.
    let body = "data: one\n\n".repeat(1_000_000);
    let server = LoopbackServer::start([Answer::sse(body.as_str())]).await.unwrap();
    let response = client().get(server.url()).send().await.unwrap();
    let (seen, ()) = tokio::join!(read(response), server.shutdown());
    assert_eq!((seen.body.len(), seen.fault), (body.len(), None));
}

#[tokio::test]
async fn a_body_of_a_vendor_is_an_answer() {
    let answers = [
        anthropic::body().text("Hello").into(),
        anthropic::error(529, "overloaded_error", "Overloaded"),
    ];
    let server = LoopbackServer::start(answers).await.unwrap();
    let response = client().get(server.url()).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(response.text().await.unwrap(), anthropic::body().text("Hello").to_string());
    let response = client().get(server.url()).send().await.unwrap();
    assert_eq!(response.status(), 529);
    assert!(response.text().await.unwrap().starts_with(r#"{"type":"error","error":{"#));
}
