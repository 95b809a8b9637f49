//! Servers at an address.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use harness::{ErrorKind, ToolContext, mcp::McpServer};
use serde_json::{Value, json};

use super::{call, text};

/// Waits until this holds.
pub(super) async fn until(holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to be");
}

/// A server that does with calls what its way says. It ends with the process of the test.
pub(super) struct Server {
    pub(super) url: String,
    calls: Arc<AtomicUsize>,
    sessions: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
    /// The answers to its own requests, or the requests for its own messages.
    pub(super) answers: Arc<AtomicUsize>,
}

impl Server {
    pub(super) fn start(way: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let counters: [Arc<AtomicUsize>; 4] = Default::default();
        let [calls, sessions, cancelled, answers] = counters.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counters = counters.clone();
                thread::spawn(move || answer(stream, way, &counters));
            }
        });
        Self { url, calls, sessions, cancelled, answers }
    }

    pub(super) async fn connect(&self) -> McpServer {
        McpServer::url(&self.url)
            .name("it")
            .header("authorization", "Bearer sk-of-the-test")
            .connect()
            .await
            .expect("a server")
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// The method and the body of one request, if somebody sends one.
pub(super) fn request(stream: &TcpStream) -> Option<(String, Value, String)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let method = head.split(' ').next()?.to_owned();
    Some((method, serde_json::from_slice(&body).unwrap_or_default(), head))
}

fn answer(mut stream: TcpStream, way: &str, counters: &[Arc<AtomicUsize>; 4]) {
    let [calls, sessions, cancelled, answers] = counters;
    let Some((method, body, head)) = request(&stream) else { return };
    let mut send = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
        );
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    };
    const JSON: &str = "content-type: application/json\r\n";
    let id = &body["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    if method == "GET" && way == "resumes" && head.contains("last-event-id: 7") {
        let done = json!({"content": [{"type": "text", "text": "done"}]});
        // The same answer twice, and one for nobody. The client numbers its requests: this is the third.
        let one = json!({"jsonrpc": "2.0", "id": 2, "result": done});
        let events = format!("id: 8\ndata: {one}\n\nid: 9\ndata: {one}\n\n");
        return send("200 OK", "content-type: text/event-stream\r\n", &events);
    }
    if let Some(data) = way.strip_prefix("resumes ")
        && method == "GET"
        && head.contains("last-event-id: 7")
    {
        // The stream stays open. This is the third request, too.
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let events = format!("{head}id: 8\ndata: {}\n\n", data.replace("ID", "2"));
        let _ = stream.write_all(events.as_bytes());
        thread::sleep(Duration::from_secs(3600));
        return;
    }
    if let Some(status) = way.strip_prefix("resumes-not ")
        && method == "GET"
        && head.contains("last-event-id: 7")
    {
        return send(&format!("{status} No"), "", "");
    }
    if let Some(status) = way.strip_prefix("listens-once ")
        && method == "GET"
    {
        return match answers.fetch_add(1, Ordering::SeqCst) {
            0 => send("200 OK", "content-type: text/event-stream\r\n", ": open\n\n"),
            _ => send(&format!("{status} No"), "", ""),
        };
    }
    if method != "POST" {
        return send("405 Method Not Allowed", "", "");
    }
    if !head.contains("Bearer sk-of-the-test") {
        return send("401 Unauthorized", "www-authenticate: Bearer\r\n", "");
    }
    let asked = body["method"].as_str().unwrap_or_default();
    if let Some(answer) = way.strip_prefix("begins ")
        && let [status, kind, body] = answer.split('|').collect::<Vec<_>>()[..]
        && asked == "notifications/initialized"
    {
        return send(status, &format!("content-type: {kind}\r\n"), body);
    }
    if let [status, at, to] = way.split(' ').collect::<Vec<_>>()[..]
        && (at == asked || at == "all")
    {
        return send(&format!("{status} Elsewhere"), &format!("location: {to}\r\n"), "");
    }
    match asked {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::SeqCst);
            let able = json!({"tools": {}});
            let this = json!({"name": "scripted", "version": "1"});
            let headers = format!("{JSON}mcp-session-id: session-{number}\r\n");
            let begun =
                json!({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": this});
            send("200 OK", &headers, &result(begun));
        }
        "tools/list"
            if way == "forgets-at-second-list" && calls.fetch_add(1, Ordering::SeqCst) == 1 =>
        {
            send("404 Not Found", "", "");
        }
        "tools/list" => {
            let tools = json!({"tools": [{"name": "run", "inputSchema": {"type": "object"}}]});
            send("200 OK", JSON, &result(tools));
        }
        "tools/call" => {
            let number = calls.fetch_add(1, Ordering::SeqCst);
            let done = result(json!({"content": [{"type": "text", "text": "done"}]}));
            if let Some((status, body)) =
                way.strip_prefix("refuses ").and_then(|it| it.split_once('|'))
                && number == 0
            {
                let headers = match body.chars().next() {
                    Some('{') => JSON,
                    Some('d') => "content-type: text/event-stream\r\n",
                    _ => "",
                };
                return send(status, headers, &body.replace("ID", &id.to_string()));
            }
            match way {
                "forgets" if number == 0 => send("404 Not Found", "", ""),
                "redirects" => send("307 Temporary Redirect", "location: /mcp\r\n", ""),
                "moves" => send("308 Permanent Redirect", "location: /other\r\n", ""),
                "closes" => {}
                "cuts" => send("200 OK", "content-type: text/event-stream\r\n", ": nothing\n\n"),
                "cuts-json" => send("200 OK", JSON, "{\"jsonrpc\": \"2.0\", "),
                "breaks" => {
                    send("500 Internal Server Error", "", "Bearer sk-of-the-test is not welcome")
                }
                "busy" => send("503 Service Unavailable", "retry-after: 0\r\n", ""),
                "forbids" => send("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
                "page" => send("200 OK", "content-type: text/html\r\n", "<html>"),
                "accepts" => send("202 Accepted", "", ""),
                "streams" => {
                    let events = format!("event: message\ndata: {done}\n\n");
                    send("200 OK", "content-type: text/event-stream\r\n", &events);
                }
                "halves" => {
                    let text = r#"{"content":[{"type":"text","text":"a\ud83d"}]}"#;
                    send(
                        "200 OK",
                        JSON,
                        &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{text}}}"#),
                    );
                }
                "refuses-without-end" if number == 0 => {
                    let head = "HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n";
                    let _ = stream.write_all(format!("{head}5\r\nno id\r\n").as_bytes());
                    thread::sleep(Duration::from_secs(3600));
                }
                _ if way.starts_with("event ") => {
                    let data = way.trim_start_matches("event ").replace("ID", &id.to_string());
                    // The stream stays open, and no length is told.
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                    let _ = stream.write_all(format!("{head}data: {data}\n\n").as_bytes());
                    thread::sleep(Duration::from_secs(3600));
                }
                "asks-instead" => {
                    send("200 OK", JSON, r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#)
                }
                "tells-instead" => {
                    let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                    send("200 OK", JSON, told);
                }
                "large-json" => send("200 OK", JSON, &"[".repeat(100 << 20)),
                "large-event" => {
                    let event = format!("data: {}\n\n", "x".repeat(100 << 20));
                    send("200 OK", "content-type: text/event-stream\r\n", &event);
                }
                "echoes" => {
                    let said =
                        head.lines().filter(|it| it.to_lowercase().starts_with("authorization:"));
                    let said = said.collect::<Vec<_>>().join(", ");
                    send("200 OK", JSON, &error(&format!(" \"id\": {id},"), -1, &said));
                }
                _ if way.starts_with("resumes") => {
                    let events = "id: 7\nretry: 10\ndata:\n\n";
                    send("200 OK", "content-type: text/event-stream\r\n", events);
                }
                "holds-pongs" | "pings" => {
                    let ping = "data: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\n";
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                    let _ = stream.write_all(format!("{head}{ping}").as_bytes());
                    while way == "pings" && stream.write_all(ping.as_bytes()).is_ok() {}
                    thread::sleep(Duration::from_secs(3600));
                }
                "waits" | "holds-cancelled" => thread::sleep(Duration::from_secs(3600)),
                _ => send("200 OK", JSON, &done),
            }
        }
        "notifications/cancelled" => {
            cancelled.fetch_add(1, Ordering::SeqCst);
            if way == "holds-cancelled" {
                thread::sleep(Duration::from_secs(3600));
            }
            send("202 Accepted", "", "");
        }
        "" => {
            answers.fetch_add(1, Ordering::SeqCst);
            if way != "good" && !way.starts_with("event") {
                thread::sleep(Duration::from_secs(3600));
            }
            send("202 Accepted", "", "");
        }
        _ => send("202 Accepted", "", ""),
    }
}

#[tokio::test]
async fn a_server_at_an_address_is_called() {
    for way in ["good", "streams"] {
        let server = Server::start(way);
        let it = server.connect().await;
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{way}");
        assert_eq!(server.calls(), 1, "{way}");
    }
}

#[tokio::test]
async fn no_call_is_sent_twice_whatever_becomes_of_it() {
    for way in [
        "redirects",
        "moves",
        "closes",
        "cuts-json",
        "breaks",
        "busy",
        "page",
        "asks-instead",
        "tells-instead",
    ] {
        let server = Server::start(way);
        let it = server.connect().await;
        let err = call(&it.tools()[0]).await.expect_err(way);
        assert!(err.is_in_doubt(), "{way}: {err}");
        assert!(!err.to_string().contains("sk-of-the-test"), "{way}: {err}");
        assert_eq!(server.calls(), 1, "{way}: {err}");
    }
}

#[tokio::test]
async fn half_a_character_does_not_make_a_body_unreadable() {
    let server = Server::start("halves");
    let it = server.connect().await;
    assert_eq!(text(call(&it.tools()[0]).await), "a\u{fffd}");
}

#[tokio::test]
async fn a_refusal_whose_body_does_not_end_is_read_as_far_as_it_has_come() {
    let server = Server::start("refuses-without-end");
    let it = server.connect().await;
    let tool = it.tools().remove(0);
    let refused = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await;
    let err = refused.expect("an end").expect_err("a refusal");
    assert!(err.is_in_doubt() && err.to_string().contains("400 Bad Request: no id"), "{err}");
    assert_eq!(text(call(&tool).await), "done");
    assert_eq!((server.calls(), server.sessions.load(Ordering::SeqCst)), (2, 2));
}

/// The stream stays open, but nothing else will come.
#[tokio::test]
async fn an_event_that_cannot_be_read_leaves_the_call_in_doubt_at_once() {
    for (data, said) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"a":1e999}}"#, "no message of JSON-RPC"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#, "no message of JSON-RPC"),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#, "without an id: no"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\ud83d"}]}}"#,
            "",
        ),
        (
            r#"[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\ufffd"}]}}]"#,
            "",
        ),
    ] {
        let server = Server::start(format!("event {data}").leak());
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let answer = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await.expect(data);
        match said {
            "" => assert_eq!(text(answer), "a\u{fffd}"),
            said => {
                let err = answer.expect_err(data);
                assert!(err.is_in_doubt() && err.to_string().contains(said), "{data}: {err}");
            }
        }
    }
}

/// It belongs to one request, so it can be meant for no other.
#[tokio::test]
async fn an_event_that_is_no_message_leaves_the_call_in_doubt_at_once() {
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
    let no_ids = ["[7]", "{}", "true", "7.5", "+7", "07", "undefined", "None"].map(answer);
    let others = [r#"garbage"#, r#""x""#, "[]", "[1]", "{}", "log: {}"].map(str::to_owned);
    let nested = format!("[[{}]]", answer("ID"));
    for data in no_ids.into_iter().chain(others).chain([nested]) {
        let server = Server::start(format!("event {data}").leak());
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let answer = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await;
        let err = answer.unwrap_or_else(|_| panic!("{data}: no end")).expect_err(&data);
        assert!(err.is_in_doubt() && err.to_string().contains("cannot be read"), "{data}: {err}");
    }
}

#[tokio::test]
async fn an_event_without_words_or_of_another_type_is_passed_over() {
    let own = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    for first in ["", "  ", "x\nevent: ping"] {
        let server = Server::start(format!("event {first}\n\ndata: {own}").leak());
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let answer = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await;
        assert_eq!(text(answer.expect(first)), "done", "{first}");
    }
}

#[tokio::test]
async fn of_a_list_in_an_event_the_answer_of_the_call_is_taken_and_the_rest_is_handled() {
    let own = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let other = r#"{"jsonrpc":"2.0","id":4711,"result":{"content":[]}}"#;
    let without = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    for (list, answers) in [
        (format!("[{other},{own}]"), 0),
        (format!("[{without},{own}]"), 0),
        (format!("[7,{own}]"), 0),
        (format!("[{ping},{own}]"), 1),
        (format!("[{own},{ping}]"), 1),
        (format!("[{ping}]\n\ndata: {own}"), 1),
    ] {
        let server = Server::start(format!("event {list}").leak());
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let answer = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await;
        assert_eq!(text(answer.unwrap_or_else(|_| panic!("{list}"))), "done", "{list}");
        until(|| server.answers.load(Ordering::SeqCst) == answers).await;
    }
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_anew_for_the_next_call() {
    let server = Server::start("forgets");
    let it = server.connect().await;
    let tool = it.tools().remove(0);
    assert!(call(&tool).await.expect_err("a lost call").is_in_doubt());
    assert_eq!(server.calls(), 1);
    assert_eq!(text(call(&tool).await), "done");
    assert_eq!((server.calls(), server.sessions.load(Ordering::SeqCst)), (2, 2));
}

fn error(id: &str, code: i32, message: &str) -> String {
    let error = json!({"code": code, "message": message});
    format!(r#"{{"jsonrpc": "2.0",{id} "error": {error}}}"#)
}

#[tokio::test]
async fn a_session_that_is_refused_by_any_words_is_begun_anew_for_the_next_call() {
    let unknown = |id: &str| error(id, -32_000, "Bad Request: No valid session ID provided");
    for (body, in_doubt) in [
        (unknown(""), true),
        (unknown(r#" "id": null,"#), true),
        (unknown(r#" "id": "server-error","#), true),
        (unknown(r#" "id": ID,"#), false),
        ("no such session".to_owned(), true),
        (format!("data: {}\n\n", unknown(r#" "id": null,"#)), true),
        (format!("data: {}\n\n", unknown(r#" "id": ID,"#)), false),
    ] {
        let status = if body.starts_with("data") { "200 OK" } else { "400 Bad Request" };
        let server = Server::start(format!("refuses {status}|{body}").leak());
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        let err = call(&tool).await.expect_err("a refusal");
        assert_eq!(err.is_in_doubt(), in_doubt, "{body}: {err}");
        assert!(err.to_string().contains("session"), "{body}: {err}");
        assert_eq!(server.calls(), 1, "{body}");
        assert_eq!(text(call(&tool).await), "done", "{body}");
        assert_eq!((server.calls(), server.sessions.load(Ordering::SeqCst)), (2, 2), "{body}");
    }
}

#[tokio::test]
async fn a_session_stays_if_the_server_refuses_one_request() {
    let body = error(r#" "id": ID,"#, -32_602, "a is missing");
    let server = Server::start(format!("refuses 400 Bad Request|{body}").leak());
    let it = server.connect().await;
    let err = call(&it.tools()[0]).await.expect_err("a refusal");
    assert!(!err.is_in_doubt() && err.to_string().contains("a is missing"), "{err}");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!(server.sessions.load(Ordering::SeqCst), 1);
}

/// Nothing else can come, so nothing is waited for.
#[tokio::test]
async fn an_answer_of_http_that_is_none_to_the_call_ends_it() {
    let other = r#"{"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}"#;
    for answer in [
        "202 Accepted|".to_owned(),
        "204 No Content|".to_owned(),
        format!("200 OK|{other}"),
        format!("200 OK|{}", error(r#" "id": null,"#, -32_603, "lost")),
        format!("500 Internal Server Error|{}", error("", -32_603, "lost")),
    ] {
        let server = Server::start(format!("refuses {answer}").leak());
        let it = server.connect().await;
        let err = call(&it.tools()[0]).await.expect_err("no answer");
        assert!(err.is_in_doubt(), "{answer}: {err}");
        assert_eq!(server.calls(), 1, "{answer}");
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{answer}");
    }
    // A number may come as a text.
    let own = r#"{"jsonrpc": "2.0", "id": "ID", "result": {"content": [{"type": "text", "text": "mine"}]}}"#;
    let server = Server::start(format!("refuses 200 OK|{own}").leak());
    assert_eq!(text(call(&server.connect().await.tools()[0]).await), "mine");
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_told_with_the_reason_and_a_way_out() {
    let told = async |url: &str| {
        let err = McpServer::url(url).name("it").connect().await.expect_err(url);
        err.to_string()
    };
    let err = told("http://127.0.0.1:1/mcp").await;
    for part in ["`it`", "refused", "see that the server runs", "`http://127.0.0.1:1/mcp`"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let server = Server::start("good");
    let err = told(&server.url.replace("http:", "https:")).await;
    assert!(err.contains("cannot be reached") && err.to_lowercase().contains("tls"), "{err}");
    let err = told("ftp://127.0.0.1/mcp").await;
    assert!(err.contains("`it`") && err.contains("`ftp://127.0.0.1/mcp`"), "{err}");
    let page = "404 all /\r\ncontent-type:text/html";
    let server = Server::start(page);
    let err =
        McpServer::url(&server.url).name("it").header("authorization", "Bearer sk-of-the-test");
    let err = err.connect().await.expect_err("a page").to_string();
    assert!(err.contains("is the path of `http://127.0.0.1:"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[tokio::test]
async fn a_refused_token_is_no_doubt() {
    let server = Server::start("forbids");
    let it = server.connect().await;
    let err = call(&it.tools()[0]).await.expect_err("a refusal");
    assert!(!err.is_in_doubt() && err.to_string().contains("not authorized"), "{err}");
    assert_eq!(server.calls(), 1);
    let err = McpServer::url(&server.url).connect().await.expect_err("no token");
    assert_eq!(err.kind(), ErrorKind::Connect, "{err}");
}

#[tokio::test]
async fn a_call_that_waits_for_ever_is_stopped_and_the_server_hears_of_it() {
    for way in ["waits", "cuts", "accepts"] {
        let server = Server::start(way);
        let it = server.connect().await;
        let context = ToolContext::new("call_1");
        let stop = context.cancellation().clone();
        let called = async {
            until(|| server.calls() == 1).await;
            stop.cancel();
        };
        let tool = it.tools().remove(0);
        let (result, ()) = tokio::join!(tool.call(&context, json!({})), called);
        assert!(result.expect_err(way).is_in_doubt(), "{way}");
        // A call that has ended at the server is not cancelled there.
        if way == "waits" {
            until(|| server.cancelled.load(Ordering::SeqCst) == 1).await;
        }
        assert_eq!(server.calls(), 1, "{way}");
    }
}

/// A message that the server does not answer, and one that it asks for without end, do not keep back others.
#[tokio::test]
async fn a_server_hears_of_each_call_that_is_stopped_whatever_it_does_with_other_messages() {
    for way in ["holds-cancelled", "holds-pongs", "pings"] {
        let server = Server::start(way);
        let it = server.connect().await;
        let tool = it.tools().remove(0);
        for number in 1..=3 {
            tokio::select! {
                _ = call(&tool) => panic!("{way}: it is never answered"),
                () = until(|| server.calls() == number) => {}
            }
        }
        until(|| server.cancelled.load(Ordering::SeqCst) == 3).await;
    }
}

#[tokio::test]
async fn a_session_that_is_refused_at_its_second_message_is_told_with_the_reason() {
    for (status, said) in [("403", "HTTP 403"), ("404", "404"), ("500", "500")] {
        let server = Server::start(format!("{status} notifications/initialized /").leak());
        let it = McpServer::url(&server.url).name("it");
        let it = it.header("authorization", "Bearer sk-of-the-test").connect().await;
        let err = it.expect_err(status).to_string();
        assert!(err.contains("did not begin a session") && err.contains(said), "{status}: {err}");
        assert!(!err.contains("channel"), "{status}: {err}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_called() {
    let err =
        McpServer::url("http://127.0.0.1:1/mcp").connect().await.expect_err("nobody is there");
    assert_eq!(err.kind(), ErrorKind::Connect, "{err}");
    for wrong in ["file:///etc/passwd", "nonsense", ""] {
        let err = McpServer::url(wrong).connect().await.expect_err(wrong);
        assert!(err.is_configuration(), "{wrong}: {err}");
    }
    let err = McpServer::url("https://example.com")
        .header("a b", "c")
        .connect()
        .await
        .expect_err("a header");
    assert!(err.is_configuration(), "{err}");
    let err = McpServer::url("https://example.com")
        .env("A", "b")
        .connect()
        .await
        .expect_err("a variable");
    assert!(err.is_configuration(), "{err}");
}

#[tokio::test]
async fn neither_call_nor_token_goes_to_another_host() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port();
    other.set_nonblocking(true).expect("a listener");
    for (status, at) in
        [(301, "initialize"), (302, "tools/list"), (307, "tools/call"), (308, "tools/call")]
    {
        let way = format!("{status} {at} http://127.0.0.1:{port}/mcp");
        let server = Server::start(way.clone().leak());
        let connected = McpServer::url(&server.url)
            .name("it")
            .header("authorization", "Bearer sk-of-the-test")
            .connect()
            .await;
        match connected {
            Ok(it) => assert!(call(&it.tools()[0]).await.expect_err(&way).is_in_doubt(), "{way}"),
            Err(err) => assert!(!err.to_string().contains("sk-of"), "{way}: {err}"),
        }
        assert!(other.accept().is_err(), "{way}: somebody came");
    }
}

#[tokio::test]
async fn no_error_shows_what_is_secret_in_an_address() {
    let err =
        McpServer::url("http://somebody:word-of-somebody@127.0.0.1:1/mcp?key=sk-in-the-address")
            .connect()
            .await
            .expect_err("nobody is there");
    let shown = format!("{err} {err:?}");
    assert!(!shown.contains("sk-in-the-address") && !shown.contains("word-of-somebody"), "{shown}");
}

/// The user is a key at many services, and the header is made of both.
#[tokio::test]
async fn no_error_shows_what_a_server_repeats_of_the_secrets_in_its_address() {
    let said = |way: &'static str, user: &'static str| async move {
        let server = Server::start(way);
        let url = server.url.replace("http://", &format!("http://{user}@"));
        let it = McpServer::url(url).name("it").header("authorization", "Bearer sk-of-the-test");
        let it = it.connect().await.expect("a server");
        call(&it.tools()[0]).await.expect_err("a refusal").to_string()
    };
    let refusal = |text: &str| -> &'static str {
        format!("refuses 200 OK|{}", error(r#" "id": ID,"#, -1, text)).leak()
    };
    for user in ["ghp_key", "ghp%2Fkey:p4ss%2Fword", "ghp%2Fkey:", "me:p4%"] {
        let err = said("echoes", user).await;
        assert!(err.contains("uthorization: Basic [secret]"), "{user}: {err}");
    }
    let text = "you are ghp/key with p4ss/word, ghp%2Fkey with p4ss%2Fword";
    let err = said(refusal(text), "ghp%2Fkey:p4ss%2Fword").await;
    let shown = "you are [secret] with [secret], [secret] with [secret]";
    assert!(err.contains(shown), "{err}");
    let err = said(refusal("you are ab:cd"), "ab:cd").await;
    assert!(err.contains("you are [secret]"), "{err}");
}

#[tokio::test]
async fn a_list_is_read_in_a_new_session_if_the_old_one_is_forgotten() {
    let server = Server::start("forgets-at-second-list");
    let it = server.connect().await;
    let first = it.reload().await;
    assert!(first.is_err(), "the session is gone");
    assert_eq!(it.reload().await.expect("a new session").tools().len(), 1);
    assert_eq!(server.sessions.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_is_too_large_is_not_read_to_its_end() {
    for way in ["large-json", "large-event"] {
        let server = Server::start(way);
        let it = server.connect().await;
        let context = ToolContext::new("call_1");
        let stop = context.cancellation().clone();
        let tool = it.tools().remove(0);
        let called = tool.call(&context, json!({}));
        let late = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            stop.cancel();
        };
        let (result, ()) = tokio::join!(called, late);
        assert!(result.expect_err(way).is_in_doubt(), "{way}");
        assert_eq!(server.calls(), 1, "{way}");
    }
}

#[tokio::test]
async fn a_stream_that_is_taken_up_again_sends_no_call_again() {
    let server = Server::start("resumes");
    let it = server.connect().await;
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!(server.calls(), 1);
}
