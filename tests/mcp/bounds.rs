//! What others send decides neither the memory nor the time that the program needs.

use std::time::Duration;

use harness::{
    ToolLimits,
    mcp::{McpServer, McpService},
    tool, tools,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
};

use super::{
    Scripted, call,
    measured::needs_at_most,
    served_http::{Served, begin, client},
    text,
};

#[test]
fn the_patterns_of_a_server_have_one_limit_together() {
    needs_at_most(300, "bounds::the_patterns_of_a_server_have_one_limit_together", async {
        let scripted = Scripted::new();
        let server = scripted.server("patterns").connect().await.expect("a server");
        let left_out = server.left_out();
        assert!(left_out.len() > 700 && left_out.len() < 800, "{}", left_out.len());
        assert!(left_out[0].contains("`pattern`") && left_out[0].contains("KiB"), "{left_out:?}");
        // What has none is there, though it comes last.
        let run = server.only(["run"]).expect("a tool");
        assert_eq!(text(call(&run[0]).await), "ran in life 1");
        server.close().await;
    });
}

/// Whether a list was given up for its memory, or on a busy machine for its time.
fn is_bounded(why: &str) -> bool {
    why.contains("more than 64 MiB of memory") || why.contains("within 30 s")
}

#[test]
fn the_tools_of_a_server_have_one_limit_together() {
    needs_at_most(250, "bounds::the_tools_of_a_server_have_one_limit_together", async {
        for way in ["wide-text", "wide-values", "wide-objects"] {
            let scripted = Scripted::new();
            let err = scripted.server(way).connect().await.expect_err(way).to_string();
            assert!(is_bounded(&err), "{way}: {err}");
        }
        // As many as there may be.
        let scripted = Scripted::new();
        let server = scripted.server("many-tools").connect().await.expect("a server");
        assert_eq!((server.tools().len(), server.left_out().len()), (2000, 0));
        server.close().await;
    });
}

#[test]
fn the_resources_and_prompts_of_a_server_have_one_limit_each() {
    needs_at_most(
        250,
        "bounds::the_resources_and_prompts_of_a_server_have_one_limit_each",
        async {
            for way in ["offers-wide-text", "offers-wide-values"] {
                let scripted = Scripted::new();
                let server = scripted.server(way).connect().await.expect("a server");
                let resources = server.resources().await.expect_err(way).to_string();
                assert!(is_bounded(&resources), "{way}: {resources}");
                // What is no prompt is left out, and needs no memory then.
                if let Err(prompts) = server.prompts().await {
                    assert!(is_bounded(&prompts.to_string()), "{way}: {prompts}");
                }
                server.close().await;
            }
        },
    );
}

#[test]
fn what_clients_say_of_themselves_is_kept_in_little_memory() {
    needs_at_most(400, "bounds::what_clients_say_of_themselves_is_kept_in_little_memory", async {
        let served = Served::start(service()).await;
        let beginning = |size: usize| {
            let mut begin = begin();
            begin["params"]["clientInfo"]["name"] = "x".repeat(size).into();
            begin
        };
        for _ in 0..150 {
            let refused = served.post(&beginning(3 << 20)).send().await.expect("an answer");
            assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
            let why = refused.text().await.expect("a text");
            assert!(why.contains("begins a session is too large"), "{why}");
        }
        // As large as they may be, and more of them than are kept.
        let begin = beginning(60 << 10);
        let post = client().post(&served.url).header("content-type", "application/json");
        let post = post.header("accept", "application/json, text/event-stream");
        let post = post.body(reqwest::Body::from(bytes_of(begin.to_string())));
        for _ in 0..1100 {
            let post = post.try_clone().expect("a request");
            let begun = post.send().await.expect("an answer");
            assert_eq!(begun.status(), StatusCode::OK);
            begun.bytes().await.expect("a body");
        }
        let session = served.session().await;
        let listed: Value = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list"});
        let listed = session.post(&listed).send().await.expect("an answer");
        assert!(listed.text().await.expect("a text").contains("Hands over much"));
    });
}

#[test]
fn answers_that_are_kept_for_clients_have_one_limit_together() {
    needs_at_most(
        300,
        "bounds::answers_that_are_kept_for_clients_have_one_limit_together",
        async {
            let served = Served::start(service()).await;
            let params = json!({"name": "much", "arguments": {}});
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            let mut first = None;
            for _ in 0..12 {
                let session = served.session().await;
                let mut answer = session.post(&call).send().await.expect("an answer");
                let primed = answer.chunk().await.expect("a body").expect("an event");
                let primed = String::from_utf8(primed.to_vec()).expect("a text");
                let last = primed.lines().find_map(|line| line.strip_prefix("id:")).expect("an id");
                while answer.chunk().await.expect("a body").is_some() {}
                first.get_or_insert_with(|| (session.id.clone(), last.trim().to_owned()));
            }
            // The oldest made place for the others.
            let (session, last) = first.expect("an answer");
            let back = client().get(&served.url).header("accept", "text/event-stream");
            let back = back.header("mcp-session-id", session).header("last-event-id", last);
            let status = back.send().await.expect("an answer").status();
            // On a busy machine, the session has ended by now.
            assert!(matches!(status, StatusCode::GONE | StatusCode::NOT_FOUND), "{status}");
        },
    );
}

#[test]
fn a_result_of_millions_of_numbers_is_refused() {
    needs_at_most(200, "bounds::a_result_of_millions_of_numbers_is_refused", async {
        let scripted = Scripted::new();
        let server = scripted.server("many-numbers").connect().await.expect("a server");
        let refused = call(&server.tools()[0]).await.expect_err("an error").to_string();
        assert!(refused.contains("more than 250000 values"), "{refused}");
        server.close().await;
    });
}

#[test]
fn a_text_of_millions_of_numbers_is_a_text() {
    needs_at_most(300, "bounds::a_text_of_millions_of_numbers_is_a_text", async {
        let scripted = Scripted::new();
        let server = scripted.server("many-numbers-in-text").connect().await.expect("a server");
        let text = text(call(&server.tools()[0]).await);
        assert!(text.len() > 14_000_000);
        server.close().await;
    });
}

/// Hands over much.
#[tool(side_effects = "none")]
fn much() -> String {
    "x".repeat(12_000_000)
}

fn service() -> McpService {
    let limits = ToolLimits::default().tries(1).output(16_000_000);
    McpService::new(tools![much]).limits(limits).resuming_time(Duration::from_secs(3600))
}

#[test]
fn requests_of_millions_of_values_are_refused() {
    needs_at_most(700, "bounds::requests_of_millions_of_values_are_refused", async {
        let served = Served::start(service()).await;
        let zeros = "0,".repeat((4 << 20) / 2 - 100);
        let params = format!(r#"{{"name":"much","arguments":{{"all":[{zeros}0]}}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let call = bytes_of(call);
        let mut all = JoinSet::new();
        for _ in 0..200 {
            let post = client().post(&served.url).header("content-type", "application/json");
            let post = post.header("accept", "application/json, text/event-stream");
            let post = post.body(reqwest::Body::from(call));
            all.spawn(async move {
                let answer = match post.send().await {
                    Ok(answer) => answer,
                    // A service that is full does not read the request, so the client may find the connection closed
                    // before it has sent all of it.
                    Err(err) if err.is_request() => return None,
                    Err(err) => panic!("{err:?}"),
                };
                Some((answer.status(), answer.text().await.expect("a text")))
            });
        }
        let mut refused = 0;
        while let Some(answer) = all.join_next().await {
            let Some((status, said)) = answer.expect("no panic") else { continue };
            match status {
                StatusCode::BAD_REQUEST => {
                    assert!(said.contains("more than 100000 values"), "{said}");
                    refused += 1;
                }
                status => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}"),
            }
        }
        assert!(refused > 0);
    });
}

/// The client shares one text among its requests, so that the memory of the service is measured.
fn bytes_of(text: String) -> &'static [u8] {
    text.leak().as_bytes()
}

/// The clients whose request was refused, or whose call has begun.
static SETTLED: Semaphore = Semaphore::const_new(0);

/// The calls that may end.
static ENDING: Semaphore = Semaphore::const_new(0);

/// Waits.
#[tool(side_effects = "none")]
async fn wait(
    /// A text.
    text: String,
) -> usize {
    SETTLED.add_permits(1);
    let _end = ENDING.acquire().await;
    text.len()
}

#[test]
fn large_texts_of_calls_that_wait_have_one_limit_together() {
    needs_at_most(700, "bounds::large_texts_of_calls_that_wait_have_one_limit_together", async {
        const CLIENTS: usize = 60;
        let served = Served::start(McpService::new(tools![wait])).await;
        // With an escape, a text is a copy and no part of the body.
        let text = format!(r"\n{}", "x".repeat((4 << 20) - 1000));
        let params = format!(r#"{{"name":"wait","arguments":{{"text":"{text}"}}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let call = bytes_of(call);
        let mut all = JoinSet::new();
        for _ in 0..CLIENTS {
            let session = served.session().await;
            let post = session.post(&Value::Null).body(reqwest::Body::from(call));
            all.spawn(async move {
                let answer = post.send().await.expect("an answer");
                let is_served = answer.status() == StatusCode::OK;
                if !is_served {
                    SETTLED.add_permits(1);
                }
                (is_served, answer.text().await.expect("a text"))
            });
        }
        drop(SETTLED.acquire_many(u32::try_from(CLIENTS).expect("few")).await);
        ENDING.add_permits(CLIENTS);
        let mut done = 0;
        while let Some(answer) = all.join_next().await {
            let (is_served, said) = answer.expect("no panic");
            assert!(!is_served || said.contains("4193305"), "{said}");
            done += usize::from(is_served);
        }
        assert!(done > 10, "{done}");
    });
}

#[test]
fn clients_that_do_not_read_hold_little() {
    needs_at_most(300, "bounds::clients_that_do_not_read_hold_little", async {
        let served = Served::start(service()).await;
        let session = served.session().await;
        let params = json!({"name": "much", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let mut first = session.post(&call).send().await.expect("an answer");
        let primed = first.chunk().await.expect("a body").expect("an event");
        let primed = String::from_utf8(primed.to_vec()).expect("a text");
        let last = primed.lines().find_map(|line| line.strip_prefix("id:")).expect("an id").trim();
        // The answer is kept.
        while first.chunk().await.expect("a body").is_some() {}
        let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let mut deaf = Vec::new();
        for _ in 0..15 {
            let mut socket = TcpStream::connect(address).await.expect("a connection");
            let head = format!(
                "GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nmcp-session-id: {}\r\nlast-event-id: {last}\r\n\r\n",
                session.id
            );
            socket.write_all(head.as_bytes()).await.expect("a request");
            let mut status = [0; 12];
            socket.read_exact(&mut status).await.expect("an answer");
            assert_eq!(&status, b"HTTP/1.1 200");
            deaf.push(socket);
        }
        // Others are served.
        let listed: Value = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list"});
        let listed = session.post(&listed).send().await.expect("an answer");
        assert!(listed.text().await.expect("a text").contains("Hands over much"));
    });
}

#[tokio::test]
async fn connections_without_a_request_keep_no_client_out() {
    let served = Served::start(service()).await;
    let address = served.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut half = Vec::new();
    for _ in 0..900 {
        let mut socket = TcpStream::connect(address).await.expect("a connection");
        socket.write_all(b"POST /mcp HTTP/1.1\r\n").await.expect("a part");
        half.push(socket);
    }
    // Before a time is over, the first of them is closed and the last is not.
    let it = McpServer::url(&served.url).name("it").connect().await.expect("a service");
    let mut byte = [0; 1];
    let first = half[0].read(&mut byte).await;
    assert!(matches!(first, Ok(0) | Err(_)), "{first:?}");
    let last = half.last_mut().expect("a socket");
    let open = tokio::time::timeout(Duration::from_millis(1), last.read(&mut byte)).await;
    assert!(open.is_err(), "{open:?}");
    it.close().await;
}
