//! The program's own tools, served over HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    State, Tool, ToolContext, ToolError, ToolOutput,
    mcp::{McpServer, McpService},
    tool, tools,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Barrier, Notify},
    task::JoinHandle,
};

use super::{http::until, text};

/// A service at an address of this machine. It ends when it is dropped.
pub(super) struct Served {
    pub(super) url: String,
    task: JoinHandle<Result<(), harness::Error>>,
}

impl Served {
    pub(super) async fn start(service: McpService) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        Self { url, task: tokio::spawn(service.serve_http(listener)) }
    }

    /// A request of a client that is nobody's library.
    pub(super) fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.post_as("application/json", body)
    }

    fn post_as(&self, kind: &str, body: &Value) -> reqwest::RequestBuilder {
        client()
            .post(&self.url)
            .header("content-type", kind)
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// A session of the older version.
    pub(super) async fn session(&self) -> Session<'_> {
        let begun = self.post(&begin()).send().await.expect("an answer");
        let id = begun.headers()["mcp-session-id"].to_str().expect("a text").to_owned();
        let session = Session { served: self, id };
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = session.post(&told).send().await.expect("an answer");
        assert_eq!(told.status(), StatusCode::ACCEPTED);
        session
    }

    pub(super) async fn connect(&self, name: &str) -> McpServer {
        McpServer::url(&self.url).name(name).trust_hints().connect().await.expect("a service")
    }
}

/// A session of the older version, of a client that is nobody's library.
pub(super) struct Session<'s> {
    served: &'s Served,
    pub(super) id: String,
}

impl Session<'_> {
    pub(super) fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.of(self.served.post(body))
    }

    /// A request of this session.
    pub(super) fn of(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        request.header("mcp-session-id", &self.id).header("mcp-protocol-version", "2025-11-25")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn client() -> reqwest::Client {
    // It may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // No test here uses TLS, and reading the certificates of the system takes longer than most of them.
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client")
}

async fn call(tool: &Tool) -> Result<ToolOutput, ToolError> {
    tool.call(&ToolContext::new("call_1"), json!({})).await
}

pub(super) fn begin() -> Value {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// A call of the version without sessions.
pub(super) fn sessionless(served: &Served, tool: &str) -> reqwest::RequestBuilder {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = served.post(&body).header("mcp-protocol-version", "2026-07-28");
    request.header("mcp-method", "tools/call").header("mcp-name", tool)
}

/// Says hello.
#[tool(side_effects = "none")]
fn hello() -> &'static str {
    "hello"
}

/// Waits until as many calls run as are needed.
#[tool(side_effects = "read")]
async fn meet(others: State<Barrier>, context: ToolContext) -> String {
    context.progress().report("waiting");
    others.wait().await;
    "met".to_owned()
}

#[tokio::test]
async fn two_clients_are_served_at_the_same_time() {
    let served = Served::start(McpService::new(tools![meet]).state(Barrier::new(2))).await;
    let (one, two) = (served.connect("one").await, served.connect("two").await);
    assert!(one.tools()[0].side_effects().is_read_only());
    let (one, two) = (one.tools().remove(0), two.tools().remove(0));
    let met = tokio::join!(call(&one), call(&two));
    assert_eq!(text(met.0), "met");
    assert_eq!(text(met.1), "met");
}

#[tokio::test]
async fn a_call_needs_no_session_in_the_newer_version() {
    let served = Served::start(McpService::new(tools![hello])).await;
    let answer = sessionless(&served, "hello").send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = answer.text().await.expect("a body");
    assert!(answer.contains(r#""text":"hello""#), "{answer}");
}

#[tokio::test]
async fn only_hosts_and_origins_that_are_allowed_are_served() {
    let service = || McpService::new(tools![hello]);
    let served = Served::start(service()).await;
    let status = async |served: &Served, header: &str, value: &str| {
        let sent = served.post(&begin()).header(header, value).send().await;
        sent.expect("an answer").status()
    };
    let evil = "http://evil.example";
    for (header, value, expected) in [
        ("x-nothing", "x", StatusCode::OK),
        ("host", "localhost", StatusCode::OK),
        ("host", "evil.example", StatusCode::FORBIDDEN),
        ("host", "mcp.example.com", StatusCode::FORBIDDEN),
        ("origin", evil, StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("origin", &served.url, StatusCode::FORBIDDEN),
    ] {
        assert_eq!(status(&served, header, value).await, expected, "{header}: {value}");
    }
    let allowed = service().allow_host("mcp.example.com").allow_origin("https://app.example:443");
    let served = Served::start(allowed).await;
    assert_eq!(status(&served, "host", "mcp.example.com").await, StatusCode::OK);
    assert_eq!(status(&served, "host", "evil.example").await, StatusCode::FORBIDDEN);
    assert_eq!(status(&served, "origin", "https://app.example").await, StatusCode::OK);
    assert_eq!(status(&served, "origin", "http://app.example").await, StatusCode::FORBIDDEN);
    assert_eq!(status(&served, "origin", evil).await, StatusCode::FORBIDDEN);
}

/// The event stream of a session stays open as long as its client does.
#[tokio::test]
async fn clients_that_listen_do_not_keep_others_from_calling() {
    let served = Served::start(McpService::new(tools![hello])).await;
    let client = client();
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut listening = Vec::new();
    for _ in 0..257 {
        let begun = client.post(&served.url).header("content-type", "application/json");
        let begun = begun.header("accept", "application/json, text/event-stream");
        let begun = begun.body(begin().to_string()).timeout(Duration::from_secs(20));
        let begun = begun.send().await.expect("an answer");
        let session = begun.headers()["mcp-session-id"].to_str().expect("a text");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("a request");
        let mut answer = [0; 12];
        let read = stream.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("an answer").expect("one");
        assert_eq!(&answer, b"HTTP/1.1 200");
        listening.push(stream);
    }
    let call = sessionless(&served, "hello").timeout(Duration::from_secs(20)).send().await;
    let call = call.expect("an answer").text().await.expect("a text");
    assert!(call.contains("hello"), "{call}");
}

#[tokio::test]
async fn what_is_no_request_of_the_protocol_is_refused() {
    let served = Served::start(McpService::new(tools![hello]).request_bytes(1000)).await;
    let mut large = begin();
    large["params"]["x"] = "x".repeat(2000).into();
    let status = served.post(&large).send().await.expect("an answer").status();
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let status = served.post_as("text/plain", &begin()).send().await.expect("an answer").status();
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let other = served.url.replace("/mcp", "/other");
    let elsewhere = Served { url: other, task: tokio::spawn(async { Ok(()) }) };
    let status = elsewhere.post(&begin()).send().await.expect("an answer").status();
    assert_eq!(status, StatusCode::NOT_FOUND);
    // Who opens the address in a browser reads what it is for.
    let page = reqwest::get(served.url.replace("/mcp", "/")).await.expect("an answer");
    assert_eq!(page.status(), StatusCode::OK);
    assert!(page.text().await.expect("a text").contains("are served at /mcp"));
    assert_eq!(served.post(&begin()).send().await.expect("an answer").status(), StatusCode::OK);
}

/// Told when a call begins and when it is dropped.
#[derive(Clone, Default)]
struct Seen {
    begun: Arc<Notify>,
    ended: Arc<Notify>,
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Never ends by itself.
#[tool(side_effects = "write")]
async fn hang(seen: State<Seen>) -> String {
    let _end = OnDrop(Arc::clone(&seen.ended));
    seen.begun.notify_one();
    std::future::pending().await
}

#[tokio::test]
async fn a_call_without_a_session_ends_with_its_connection() {
    let seen = Seen::default();
    let served = Served::start(McpService::new(tools![hang]).state(seen.clone())).await;
    let request = tokio::spawn(sessionless(&served, "hang").send());
    seen.begun.notified().await;
    request.abort();
    seen.ended.notified().await;
}

#[tokio::test]
async fn a_call_ends_with_its_service_and_with_its_session() {
    let seen = Seen::default();
    let served = Served::start(McpService::new(tools![hang]).state(seen.clone())).await;
    let client = served.connect("it").await;
    let tool = client.tools().remove(0);
    let running = tokio::spawn(async move { call(&tool).await });
    seen.begun.notified().await;
    drop(served);
    seen.ended.notified().await;
    running.abort();

    let served = Served::start(McpService::new(tools![hang]).state(seen.clone())).await;
    let client = served.connect("it").await;
    let tool = client.tools().remove(0);
    let running = tokio::spawn(async move { call(&tool).await });
    seen.begun.notified().await;
    client.close().await;
    seen.ended.notified().await;
    assert!(running.await.expect("no panic").is_err());
}

/// The calls that run.
#[derive(Clone, Default)]
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Never ends by itself, and is counted.
#[tool(side_effects = "write")]
async fn stay(running: State<Running>) -> String {
    running.0.fetch_add(1, Ordering::SeqCst);
    let _counted = Running(Arc::clone(&running.0));
    std::future::pending().await
}

#[tokio::test]
async fn a_client_can_end_its_calls_while_as_many_requests_are_served_as_may_be() {
    let running = Arc::<AtomicUsize>::default();
    let now = || running.load(Ordering::SeqCst);
    // The state itself is dropped with the service, which the count must outlive.
    let state = Running(Arc::clone(&running));
    let service = McpService::new(tools![stay]).state(state).at_once(1000);
    let served = Served::start(service).await;
    let (first, second) = (served.session().await, served.session().await);
    let params = json!({"name": "stay", "arguments": {}});
    let of = |session: &Session<'_>, id: u64| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        tokio::spawn(session.post(&body).send())
    };
    let mut calls = vec![of(&first, 5), of(&second, 6)];
    calls.extend((0..254).map(|_| tokio::spawn(sessionless(&served, "stay").send())));
    until(|| now() == 256).await;
    let one_more = sessionless(&served, "stay").send().await.expect("an answer");
    assert_eq!(one_more.status(), StatusCode::SERVICE_UNAVAILABLE);

    let params = json!({"requestId": 5});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let told = first.post(&told).send().await.expect("an answer");
    assert_eq!(told.status(), StatusCode::ACCEPTED);
    until(|| now() == 255).await;
    // An answer frees the place of the request that waits for it.
    let answer = second.post(&json!({"jsonrpc": "2.0", "id": 99, "result": {}})).send().await;
    assert_ne!(answer.expect("an answer").status(), StatusCode::SERVICE_UNAVAILABLE);
    calls.push(tokio::spawn(sessionless(&served, "stay").send()));
    until(|| now() == 256).await;
    let deleted = second.of(client().delete(&served.url)).send().await.expect("an answer");
    assert!(deleted.status().is_success(), "{}", deleted.status());
    until(|| now() == 255).await;
    calls.iter().for_each(|call| call.abort());
}
