//! Servers of 2026-07-28 over HTTP: how a client finds out that they know only this version, and its subscriptions.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use harness::mcp::McpServer;
use serde_json::{Value, json};

use super::{
    call,
    http::{request, until},
    text,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A server that knows no `initialize`, and refuses it with this status and this body.
struct Newer {
    url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    methods: Mutex<Vec<String>>,
    /// Whether the tools have changed. The second subscriber is told.
    changed: Mutex<bool>,
    told: Condvar,
}

impl Newer {
    fn start(refusal: &'static str) -> Self {
        Self::start_as(refusal, "")
    }

    /// One that behaves in this way, too.
    fn start_as(refusal: &'static str, way: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                thread::spawn(move || answer(stream, (refusal, way), &seen));
            }
        });
        Self { url, seen }
    }

    fn count(&self, method: &str) -> usize {
        let seen = self.seen.methods.lock().expect("unpoisoned");
        seen.iter().filter(|seen| *seen == method).count()
    }
}

fn answer(mut stream: TcpStream, (refusal, way): (&str, &str), seen: &Seen) {
    let Some((verb, body, _)) = request(&stream) else { return };
    let method = body["method"].as_str().unwrap_or(&verb).to_owned();
    let listens = {
        let mut all = seen.methods.lock().expect("unpoisoned");
        all.push(method.clone());
        all.iter().filter(|seen| *seen == "subscriptions/listen").count()
    };
    let id = &body["id"];
    let mut send = |status: &str, body: &str| {
        let length = body.len();
        let json = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{json}\r\n"
        );
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    };
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    match method.as_str() {
        "initialize" => {
            let (status, body) = refusal.split_once('|').unwrap_or((refusal, ""));
            if way == "refuses-without-end" {
                let length = "content-length: 100";
                let _ =
                    stream.write_all(format!("HTTP/1.1 {status}\r\n{length}\r\n\r\nno").as_bytes());
                let _ = stream.read(&mut [0]);
                return;
            }
            send(status, body);
        }
        // It is held open, as by a server that speaks both versions.
        "GET" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: open\n\n";
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read(&mut [0]);
        }
        "tools/call" if way == "pings" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let ping = json!({"jsonrpc": "2.0", "id": format!("p{id}"), "method": "ping"});
            let _ = stream.write_all(format!("{head}data: {ping}\n\n").as_bytes());
            let _ = stream.read(&mut [0]);
            seen.methods.lock().expect("unpoisoned").push("end".to_owned());
        }
        // An answer to a ping.
        "POST" if way == "pings" => {
            let _ = stream.read(&mut [0]);
        }
        "tools/call" if way == "cuts" => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}id: 7\nretry: 0\ndata:\n\n").as_bytes());
        }
        "server/discover" => send(
            "200 OK",
            &result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private",
            })),
        ),
        "tools/list" => {
            let mut tools = json!({"tools": [{"name": "run", "inputSchema": {"type": "object"}}]});
            if way == "odd-headers" {
                let header = |kind: &str, name: &str| json!({"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": name}}});
                let all = tools["tools"].as_array_mut().expect("a list");
                all.push(json!({"name": "path", "inputSchema": header("string", "../host")}));
                all.push(json!({"name": "deep", "inputSchema": header("object", "A")}));
            }
            send("200 OK", &result(tools));
        }
        "tools/call" => {
            send("200 OK", &result(json!({"content": [{"type": "text", "text": "done"}]})));
        }
        "subscriptions/listen" => {
            let event = |method: &str, params: Value| {
                let told = json!({"jsonrpc": "2.0", "method": method, "params": params});
                format!("id: 7\nretry: 0\ndata: {told}\n\n")
            };
            let yes =
                json!({"notifications": {"toolsListChanged": true}, "_meta": {SUBSCRIPTION: id}});
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let yes = event("notifications/subscriptions/acknowledged", yes);
            let _ = stream.write_all(format!("{head}{yes}").as_bytes());
            // The first one is cut.
            if listens > 1 {
                let changed = seen.changed.lock().expect("unpoisoned");
                drop(seen.told.wait_while(changed, |changed| !*changed).expect("unpoisoned"));
                let change = json!({"_meta": {SUBSCRIPTION: id}});
                let change = event("notifications/tools/list_changed", change);
                let _ = stream.write_all(change.as_bytes());
            }
        }
        _ => send("202 Accepted", ""),
    }
}

#[tokio::test]
async fn a_server_that_refuses_initialize_without_a_word_is_asked_in_the_newer_version() {
    for refusal in ["400 Bad Request", "404 Not Found"] {
        let server = Newer::start(refusal);
        let it = McpServer::url(&server.url).name("it").connect().await.expect(refusal);
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{refusal}");
        let counts = ["initialize", "server/discover", "tools/call"].map(|it| server.count(it));
        assert_eq!(counts, [1, 1, 1], "{refusal}");
    }
    // The error of the protocol may name no request, since the server has not read it.
    for id in ["", r#""id": null,"#, r#""id": "server-error","#] {
        let refusal = format!(
            r#"400 Bad Request|{{"jsonrpc": "2.0", {id} "error": {{"code": -32600, "message": "no"}}}}"#
        );
        let server = Newer::start(refusal.leak());
        let it = McpServer::url(&server.url).name("it").connect().await.expect(id);
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{id}");
    }
    // Any other failure is that of the server.
    for refusal in ["403 Forbidden", "500 Internal Server Error", "302 Found"] {
        let server = Newer::start(refusal);
        let failed = McpServer::url(&server.url).name("it").connect().await;
        assert!(failed.is_err(), "{refusal}");
        assert_eq!((server.count("initialize"), server.count("server/discover")), (1, 0));
    }
}

#[tokio::test]
async fn a_subscription_that_was_cut_is_begun_anew_before_a_call() {
    let server = Newer::start("400 Bad Request");
    let it = McpServer::url(&server.url).name("it").connect().await.expect("a server");
    // The end of the first one may still be on its way.
    let mut calls = 0;
    while server.count("subscriptions/listen") < 2 {
        assert!(call(&it.tools()[0]).await.is_ok());
        calls += 1;
        assert!(calls < 1000, "nobody listens any more");
        tokio::task::yield_now().await;
    }
    assert!(!it.has_changed(), "the same tools were listed");
    *server.seen.changed.lock().expect("unpoisoned") = true;
    server.seen.told.notify_all();
    until(|| it.has_changed()).await;
    assert_eq!(server.count("tools/call"), calls);
}

/// This version has neither a GET nor anything that is taken up again, whatever the events of a server say.
#[tokio::test]
async fn no_stream_is_taken_up_again() {
    let server = Newer::start_as("400 Bad Request", "cuts");
    let it = McpServer::url(&server.url).name("it").connect().await.expect("a server");
    // The subscription is cut behind an event with a number, so another one is begun before a call.
    let mut calls = 0;
    while server.count("subscriptions/listen") < 2 {
        let err = call(&it.tools()[0]).await.expect_err("it is cut");
        assert!(err.is_in_doubt(), "{err}");
        calls += 1;
        assert!(calls < 1000, "nobody listens any more");
        tokio::task::yield_now().await;
    }
    assert_eq!(server.count("tools/call"), calls);
    assert_eq!(server.count("GET"), 0);
}

/// In this version, the end of its connection tells the server that a call is stopped.
#[tokio::test]
async fn a_call_that_is_stopped_ends_its_connection_though_the_server_reads_no_answers() {
    let server = Newer::start_as("400 Bad Request", "pings");
    let it = McpServer::url(&server.url).name("it").connect().await.expect("a server");
    let tool = it.tools().remove(0);
    // They run at the same time, so that all answers to pings are sent before a call is stopped.
    let calls = futures_util::future::join_all((0..5).map(|_| call(&tool)));
    tokio::select! {
        _ = calls => panic!("they are never answered"),
        () = until(|| server.count("POST") == 5) => {}
    }
    until(|| server.count("end") == 5).await;
}

#[tokio::test]
async fn a_tool_whose_header_cannot_be_sent_is_left_out_with_the_reason() {
    let newer = Newer::start_as("400 Bad Request", "odd-headers");
    let server = McpServer::url(&newer.url).name("it").connect().await.expect("a server");
    let server = server.reload().await.expect("the same list");
    assert_eq!(server.tools().len(), 1);
    let left_out = server.left_out();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    for (why, name) in left_out.iter().zip(["`path`", "`deep`"]) {
        assert!(why.starts_with(name) && why.contains("x-mcp-header"), "{why}");
    }
}

#[tokio::test]
async fn a_refusal_whose_body_does_not_end_is_a_refusal_too() {
    for refusal in ["400 Bad Request", "404 Not Found"] {
        let newer = Newer::start_as(refusal, "refuses-without-end");
        let server = McpServer::url(&newer.url).name("it").connect().await.expect(refusal);
        assert_eq!(text(call(&server.tools()[0]).await), "done");
        assert_eq!(newer.count("initialize"), 1);
    }
}
