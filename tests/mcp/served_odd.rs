//! Clients that do not keep to the protocol, over pipes and over HTTP: none of them harms another, and none is left
//! without an answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{State, ToolLimits, mcp::McpService, tool, tools};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::{
    served::{Client, is_error, text},
    served_http::{self, Served},
};

/// What is seen of calls, and what lets them end.
#[derive(Clone)]
pub(super) struct Seen {
    runs: Arc<AtomicUsize>,
    pub(super) begun: Arc<Notify>,
    pub(super) ended: Arc<Notify>,
    pub(super) go: Arc<Semaphore>,
}

impl Seen {
    pub(super) fn new() -> Self {
        let (runs, begun, ended) = Default::default();
        Self { runs, begun, ended, go: Arc::new(Semaphore::new(0)) }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Works until it may end.
#[tool(side_effects = "write")]
async fn work(seen: State<Seen>) -> &'static str {
    let _end = OnDrop(Arc::clone(&seen.ended));
    seen.runs.fetch_add(1, Ordering::SeqCst);
    seen.begun.notify_one();
    // It is open for as long as the test runs.
    let _ = seen.go.acquire().await;
    "worked"
}

/// Adds two numbers.
#[tool(side_effects = "none")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

pub(super) fn service(seen: &Seen) -> McpService {
    // No call ends by its own time.
    let limits = ToolLimits::default().time(Duration::from_secs(86_400)).tries(1);
    McpService::new(tools![work, add]).state(seen.clone()).limits(limits)
}

fn request(id: Value) -> Value {
    let params = json!({"name": "work", "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn cancel(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_in_flight_runs_nothing_over_pipes() {
    let seen = Seen::new();
    let mut client = Client::new(service(&seen)).await;
    for id in [json!(70), json!("seventy")] {
        client.send(request(id.clone())).await;
        seen.begun.notified().await;
        let runs = seen.runs();
        for _ in 0..2 {
            client.send(request(id.clone())).await;
            let refused = client.next().await.expect("an answer");
            assert_eq!(refused["id"], id);
            assert_eq!(refused["error"]["code"], -32600, "{refused}");
        }
        // Others are served meanwhile, and the first goes on.
        assert_eq!(text(&client.call("add", json!({"a": 1, "b": 2})).await), "3");
        seen.go.add_permits(1);
        let answer = client.next().await.expect("an answer");
        assert_eq!((&answer["id"], text(&answer)), (&id, "worked"));
        assert_eq!(seen.runs(), runs, "it ran once");
        seen.go.acquire().await.expect("a permit").forget();
    }
    // The id of a number is another than that of the same text.
    client.send(request(json!(5))).await;
    seen.begun.notified().await;
    client.send(request(json!("5"))).await;
    seen.begun.notified().await;
}

/// An agent refuses such arguments, too.
#[tokio::test]
async fn a_request_that_not_all_read_alike_runs_nothing() {
    let call = |arguments: &str| {
        let params = format!(r#"{{"name": "add", "arguments": {arguments}}}"#);
        format!(r#"{{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {params}}}"#)
    };
    let deep = format!("{}1{}", "[".repeat(110), "]".repeat(110));
    let odd = [
        call(r#"{"a": 1, "a": 2, "b": 3}"#),
        call(&format!(r#"{{"a": 1, "b": 2, "c": {deep}}}"#)),
        call(r#"{"a": 1, "b": 2}, "name": "work""#),
    ];
    let seen = Seen::new();
    let mut client = Client::new(service(&seen)).await;
    let served = Served::start(service(&seen)).await;
    let session = served.session().await;
    for line in &odd {
        client.line(line.as_bytes()).await;
        let said = client.next().await.expect("an answer");
        assert_eq!((&said["id"], &said["error"]["code"]), (&json!(9), &json!(-32600)), "{said}");
        assert!(said.to_string().contains("nothing was run"), "{said}");
        // The name of a type has no case.
        for kind in ["application/json", "Application/JSON ; charset=utf-8"] {
            let request = session.post(&json!({})).body(line.clone()).build();
            let mut request = request.expect("a request");
            request.headers_mut().insert("content-type", kind.parse().expect("a value"));
            let client = served_http::client();
            let answer = client.execute(request).await.expect("an answer");
            assert_eq!(answer.status(), 400, "{kind}: {line}");
            let said: Value = answer.json().await.expect("JSON");
            assert_eq!(
                (&said["id"], &said["error"]["code"]),
                (&json!(9), &json!(-32600)),
                "{said}"
            );
        }
    }
    assert_eq!(seen.runs(), 0);
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 2})).await), "3");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_names_the_first_of_two_with_one_id() {
    let seen = Seen::new();
    let mut client = Client::new(service(&seen)).await;
    client.send(request(json!(70))).await;
    seen.begun.notified().await;
    client.send(request(json!(70))).await;
    assert_eq!(client.next().await.expect("an answer")["error"]["code"], -32600);
    client.send(cancel(json!(70))).await;
    seen.ended.notified().await;
    assert_eq!(seen.runs(), 1);
    // Its id is free as soon as nothing of it runs, and its answer is not taken for that of the next.
    while seen.runs() == 1 {
        client.send(request(json!(70))).await;
        tokio::select! {
            () = seen.begun.notified() => {}
            refused = client.next() => assert_eq!(refused.expect("an answer")["id"], 70),
        }
    }
    seen.go.add_permits(1);
    assert_eq!(text(&client.next().await.expect("an answer")), "worked");
}

#[tokio::test]
async fn an_id_that_is_in_flight_runs_nothing_over_http() {
    let seen = Seen::new();
    let served = Served::start(service(&seen)).await;
    let session = served.session().await;
    let first = tokio::spawn(session.post(&request(json!(70))).send());
    seen.begun.notified().await;
    for _ in 0..2 {
        let refused = session.post(&request(json!(70))).send().await.expect("an answer");
        let refused = refused.text().await.expect("a body");
        assert!(refused.contains("-32600") && refused.contains(r#""id":70"#), "{refused}");
    }
    // Another session has ids of its own.
    let other = served.session().await;
    let another = tokio::spawn(other.post(&request(json!(70))).send());
    seen.begun.notified().await;
    let told = session.post(&cancel(json!(70))).send().await.expect("an answer");
    assert_eq!(told.status(), reqwest::StatusCode::ACCEPTED);
    seen.ended.notified().await;
    drop(first);
    seen.go.add_permits(1);
    let answer = another.await.expect("no panic").expect("an answer").text().await.expect("a body");
    assert!(answer.contains("worked"), "{answer}");
    assert_eq!(seen.runs(), 2);
}

#[tokio::test]
async fn what_is_no_message_has_an_answer_over_pipes() {
    let mut client = Client::new(McpService::new(tools![add]).request_bytes(1000)).await;
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(2000));
    for (line, code, id) in [
        ("this is no JSON", -32700, Value::Null),
        ("{\"jsonrpc\": \"2.0\", \"id\": 1, ", -32700, Value::Null),
        ("\"\u{1}\"", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("7", -32600, Value::Null),
        ("{\"id\": 7}", -32600, json!(7)),
        ("{\"jsonrpc\": \"1.0\", \"id\": \"a\", \"method\": \"ping\"}", -32600, json!("a")),
        ("{\"jsonrpc\": \"2.0\", \"id\": [1], \"method\": \"ping\"}", -32600, Value::Null),
        (&long, -32600, Value::Null),
    ] {
        client.line(line.as_bytes()).await;
        let refused = client.next().await.expect("an answer");
        assert_eq!(refused["error"]["code"], code, "{line}: {refused}");
        assert_eq!(refused["id"], id, "{line}: {refused}");
    }
    client.line(b"\xff\xfe").await;
    assert_eq!(client.next().await.expect("an answer")["error"]["code"], -32700);
    // Neither empty lines nor wrong notifications have an answer, and the next request is served.
    for line in
        ["", "  ", "\r", "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/x\", \"params\": 7}"]
    {
        client.line(line.as_bytes()).await;
    }
    assert_eq!(text(&client.call("add", json!({"a": 1, "b": 2})).await), "3");
    assert_eq!(client.heard, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_no_message_has_an_answer_over_http() {
    let served = Served::start(McpService::new(tools![add])).await;
    for (body, code) in [("this is no JSON", -32700), ("[]", -32600)] {
        let refused = served.post(&Value::Null).body(body).send().await.expect("an answer");
        assert_eq!(refused.status(), reqwest::StatusCode::BAD_REQUEST);
        let refused = refused.text().await.expect("a body");
        let refused: Value = serde_json::from_str(&refused).expect("JSON");
        assert_eq!(refused["error"]["code"], code, "{refused}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_told_to_the_model() {
    let mut session = Client::new(McpService::new(tools![add])).await;
    let mut sessionless = Client::sessionless(McpService::new(tools![add]), json!({}));
    for client in [&mut session, &mut sessionless] {
        for arguments in [json!("a=1"), json!([1, 2]), json!(7), json!(true)] {
            let wrong = client.call("add", arguments).await;
            assert!(is_error(&wrong), "{wrong}");
            for part in ["`arguments`", "`a`", "`b`"] {
                assert!(text(&wrong).contains(part), "{part} in {}", text(&wrong));
            }
        }
        let unknown = client.call("sub", json!("a=1")).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        let nameless = client.ask("tools/call", json!({"name": 7})).await;
        assert_eq!(nameless["error"]["code"], -32602, "{nameless}");
        let right = client.call("add", json!({"a": 1, "b": 2})).await;
        let wrong = client.call("add", json!(null)).await;
        assert!(is_error(&wrong), "{wrong}");
        let odd = client.call("add", json!(7)).await;
        assert_eq!(odd["result"]["resultType"], right["result"]["resultType"], "{odd}");
        let nothing = client.ask("tools/sing", json!({})).await;
        assert_eq!(nothing["error"]["code"], -32601, "{nothing}");
    }
}
