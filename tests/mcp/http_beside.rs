//! Servers at an address that refuse one call while another one runs.

use std::{
    io::Write as _,
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use harness::mcp::McpServer;
use serde_json::{Value, json};

use super::{
    call_with,
    http::{request, until},
    text,
};

/// What a server has heard.
#[derive(Default)]
struct Heard {
    /// The first argument of each call, and the session of it.
    calls: Vec<(i64, String)>,
    sessions: usize,
    /// The sessions that were deleted.
    deleted: Vec<String>,
    /// Whether the first call may end.
    goes_on: bool,
}

type Shared = Arc<(Mutex<Heard>, Condvar)>;

/// A server whose first call runs until it is let go, and which refuses the second one in this way.
struct Server {
    url: String,
    heard: Shared,
}

impl Server {
    fn start(refusal: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let heard = Shared::default();
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || answer(stream, refusal, &shared));
            }
        });
        Self { url, heard }
    }

    async fn connect(&self) -> McpServer {
        McpServer::url(&self.url).name("it").connect().await.expect("a server")
    }

    fn has(&self, holds: impl Fn(&Heard) -> bool) -> bool {
        holds(&self.heard.0.lock().expect("a record"))
    }

    fn let_go(&self) {
        self.heard.0.lock().expect("a record").goes_on = true;
        self.heard.1.notify_all();
    }
}

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";

fn answer(mut stream: TcpStream, refusal: &str, shared: &Shared) {
    let Some((method, body, head)) = request(&stream) else { return };
    let session = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let session = session.unwrap_or_default();
    let mut send = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}");
        let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
    };
    let id = &body["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let said = |text: &str| result(json!({"content": [{"type": "text", "text": text}]}));
    let (mut heard, changed) = (shared.0.lock().expect("a record"), &shared.1);
    match (method.as_str(), body["method"].as_str().unwrap_or_default()) {
        ("DELETE", _) => {
            heard.deleted.push(session);
            send("200 OK", "", "");
        }
        ("POST", "initialize") => {
            let headers = format!("{JSON}mcp-session-id: session-{}\r\n", heard.sessions);
            heard.sessions += 1;
            let this = json!({"name": "scripted", "version": "1"});
            let able = json!({"tools": {}});
            let begun =
                json!({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": this});
            send("200 OK", &headers, &result(begun));
        }
        ("POST", "tools/list") => {
            let tools = json!({"tools": [{"name": "run", "inputSchema": {"type": "object"}}]});
            send("200 OK", JSON, &result(tools));
        }
        ("POST", "tools/call") => {
            let number = body["params"]["arguments"]["a"].as_i64().unwrap_or_default();
            heard.calls.push((number, session));
            match number {
                1 => {
                    let heard = changed.wait_while(heard, |heard| !heard.goes_on);
                    drop(heard);
                    send("200 OK", EVENTS, &format!("data: {}\n\n", said("slow")));
                }
                2 => {
                    let (status, body) = refusal.split_once('|').unwrap_or((refusal, ""));
                    let kind = match body.chars().next() {
                        Some('{') => JSON,
                        Some('d') => EVENTS,
                        _ => "",
                    };
                    send(status, kind, &body.replace("ID", &id.to_string()));
                }
                _ => send("200 OK", JSON, &said("quick")),
            }
        }
        ("POST", _) => send("202 Accepted", "", ""),
        _ => send("405 Method Not Allowed", "", ""),
    }
}

const UNKNOWN: &str = "404 Not Found";

#[tokio::test]
async fn a_refused_call_ends_no_other_one() {
    for refusal in [
        UNKNOWN,
        "400 Bad Request",
        "400 Bad Request|bad value",
        r#"400 Bad Request|{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"bad value"}}"#,
        r#"200 OK|{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"No browser session"}}"#,
        "200 OK|data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}\n\n",
    ] {
        let server = Server::start(refusal);
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let slow = tool.clone();
        let slow = tokio::spawn(async move { call_with(&slow, json!({"a": 1})).await });
        until(|| server.has(|heard| heard.calls.len() == 1)).await;
        call_with(&tool, json!({"a": 2})).await.expect_err("a refusal");
        assert_eq!(text(call_with(&tool, json!({"a": 3})).await), "quick", "{refusal}");
        // Only an unknown session is begun anew, since the other refusals may be about the call.
        let sessions = if refusal == UNKNOWN { 2 } else { 1 };
        assert!(server.has(|heard| heard.sessions == sessions), "{refusal}");
        assert!(server.has(|heard| heard.deleted.is_empty()), "{refusal}");
        server.let_go();
        assert_eq!(text(slow.await.expect("no panic")), "slow", "{refusal}");
        // The old session is closed with its last call.
        let closed = sessions - 1;
        until(|| server.has(|heard| heard.deleted == ["session-0"][..closed])).await;
        assert_eq!(text(call_with(&tool, json!({"a": 4})).await), "quick", "{refusal}");
        assert!(server.has(|heard| heard.sessions == sessions && heard.calls.len() == 4));
    }
}

/// A program may end right after it.
#[tokio::test]
async fn a_session_is_deleted_when_its_server_is_closed() {
    let server = Server::start(UNKNOWN);
    let it = server.connect().await;
    it.close().await;
    assert!(server.has(|heard| heard.deleted == ["session-0"]));
}

#[tokio::test]
async fn an_old_session_ends_with_its_server() {
    let server = Server::start(UNKNOWN);
    let it = server.connect().await;
    let tool = it.tools().remove(0);
    let slow = tool.clone();
    let slow = tokio::spawn(async move { call_with(&slow, json!({"a": 1})).await });
    until(|| server.has(|heard| heard.calls.len() == 1)).await;
    call_with(&tool, json!({"a": 2})).await.expect_err("a refusal");
    assert_eq!(text(call_with(&tool, json!({"a": 3})).await), "quick");
    it.close().await;
    assert!(slow.await.expect("no panic").expect_err("a lost call").is_in_doubt());
}
