//! Clients that vanish, over real sockets: none of them keeps others out.

use std::{sync::Arc, time::Duration};

use harness::{
    Agent, ToolContext, ToolError,
    mcp::{McpServer, McpService},
    message::CallOutcome,
    policy::Permissions,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::{JoinHandle, JoinSet},
};

use super::{
    served_http::{Served, Session, begin, client},
    served_odd::{Seen, service},
};

fn work(id: u64) -> Value {
    let params = json!({"name": "work", "arguments": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn add() -> Value {
    let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})
}

/// The answer to a call that runs, and the id of its first event.
async fn begun(session: &Session<'_>, seen: &Seen) -> (reqwest::Response, String) {
    let mut answer = session.post(&work(70)).send().await.expect("an answer");
    seen.begun.notified().await;
    let primed = answer.chunk().await.expect("a body").expect("an event");
    let primed = String::from_utf8(primed.to_vec()).expect("a text");
    let id = primed.lines().find_map(|line| line.strip_prefix("id:")).expect("an id");
    (answer, id.trim().to_owned())
}

#[tokio::test]
async fn a_call_whose_client_does_not_come_back_leaves_its_place() {
    let seen = Seen::new();
    let lost = service(&seen).at_once(1).resuming_time(Duration::from_millis(1));
    let served = Served::start(lost).await;
    let session = served.session().await;
    let gone = tokio::spawn(session.post(&work(70)).send());
    seen.begun.notified().await;
    let other = served.session().await;
    let refused = other.post(&add()).send().await.expect("an answer").text().await;
    assert!(refused.expect("a body").contains("did not run"));
    // The head of the answer has come: the stream is dropped with it.
    drop(gone.await.expect("no panic").expect("an answer"));
    seen.ended.notified().await;
    let answer = other.post(&add()).send().await.expect("an answer").text().await;
    assert!(answer.expect("a body").contains(r#""text":"3""#));
}

#[tokio::test]
async fn a_client_that_comes_back_gets_its_answer() {
    let seen = Seen::new();
    let served = Served::start(service(&seen).resuming_time(Duration::from_secs(3600))).await;
    let session = served.session().await;
    let (lost, last) = begun(&session, &seen).await;
    drop(lost);
    let back = session.of(client().get(&served.url)).header("accept", "text/event-stream");
    let back = back.header("last-event-id", &last).send().await.expect("an answer");
    assert_eq!(back.status(), StatusCode::OK);
    seen.go.add_permits(1);
    let answer = back.text().await.expect("a body");
    assert!(answer.contains("worked"), "{answer}");
}

/// The call ends while its client is away, or the answer is lost on its way: the client gets it when it comes back, as often as
/// it does, and not if it says that it has it.
#[tokio::test]
async fn an_answer_that_was_lost_on_the_way_is_kept() {
    for has_arrived in [false, true] {
        let seen = Seen::new();
        let served = Served::start(service(&seen).resuming_time(Duration::from_secs(3600))).await;
        let session = served.session().await;
        let mut lost = session.post(&work(70)).send().await.expect("an answer");
        seen.begun.notified().await;
        let primed = lost.chunk().await.expect("a body").expect("an event");
        let primed = String::from_utf8(primed.to_vec()).expect("a text");
        let id = |text: &str| {
            let last = text.lines().filter_map(|line| line.strip_prefix("id:")).next_back();
            last.expect("an id").trim().to_owned()
        };
        let last = if has_arrived {
            seen.go.add_permits(1);
            let rest = lost.text().await.expect("a body");
            assert!(rest.contains("worked"), "{rest}");
            let back = session.of(client().get(&served.url)).header("accept", "text/event-stream");
            let back = back.header("last-event-id", id(&rest)).send().await.expect("an answer");
            let nothing = back.text().await.expect("a body");
            assert!(!nothing.contains("worked"), "{nothing}");
            id(&primed)
        } else {
            drop(lost);
            seen.go.add_permits(1);
            // Another request has its answer after the first one has ended.
            seen.ended.notified().await;
            assert_eq!(other_sum(&served).await, "3");
            id(&primed)
        };
        for _ in 0..2 {
            let back = session.of(client().get(&served.url)).header("accept", "text/event-stream");
            let back = back.header("last-event-id", &last).send().await.expect("an answer");
            let answer = back.text().await.expect("a body");
            assert!(answer.contains("worked"), "{has_arrived}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_client_that_has_come_back_and_gone_again_is_lost() {
    let seen = Seen::new();
    let served = Served::start(service(&seen).resuming_time(Duration::from_millis(1))).await;
    let session = served.session().await;
    let (first, last) = begun(&session, &seen).await;
    // A second way there, before the first is left.
    let back = session.of(client().get(&served.url)).header("accept", "text/event-stream");
    let back = back.header("last-event-id", &last).send().await.expect("an answer");
    drop(first);
    assert_eq!(other_sum(&served).await, "3");
    drop(back);
    seen.ended.notified().await;
}

/// Forwards connections to a service, and can cut all of them.
struct Line {
    url: String,
    cut: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Line {
    async fn to(served: &Served) -> Self {
        let target = served.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let cut = Arc::new(Notify::new());
        let seen = Arc::clone(&cut);
        let task = tokio::spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                let mut there = TcpStream::connect(&target).await.expect("a service");
                let cut = Arc::clone(&seen);
                lines.spawn(async move {
                    tokio::select! {
                        _ = copy_bidirectional(&mut here, &mut there) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        Self { url, cut, task }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The client comes back after about three seconds, as the service asks it to. Then its call has been told to stop.
#[tokio::test]
async fn a_call_that_was_stopped_since_its_client_was_away_is_in_doubt() {
    let seen = Seen::new();
    let served = Served::start(service(&seen).resuming_time(Duration::from_secs(2))).await;
    let line = Line::to(&served).await;
    let server = McpServer::url(&line.url).name("it").trust_hints().connect().await;
    let server = server.expect("a service");
    let tool = server.tools().into_iter().find(|tool| tool.name() == "it__work").expect("a tool");
    let (context, arguments) = (ToolContext::new("call_1"), json!({}));
    let cut = async {
        seen.begun.notified().await;
        line.cut.notify_waiters();
    };
    let (ended, ()) = tokio::join!(tool.call(&context, arguments), cut);
    let err = ended.expect_err("the call has not ended");
    assert!(err.is_in_doubt(), "{err}");
    seen.ended.notified().await;
}

/// Pays, and does not know whether it did.
#[tool(side_effects = "write")]
fn pay() -> Result<(), ToolError> {
    Err(ToolError::in_doubt("the bank has not answered"))
}

/// The same, and it says much.
#[tool(side_effects = "write")]
fn say() -> Result<(), ToolError> {
    Err(ToolError::in_doubt("x".repeat(5_000)))
}

/// Fails.
#[tool(side_effects = "write")]
fn fail() -> Result<(), ToolError> {
    Err(ToolError::new("the bank has refused it. It may have partly run: no"))
}

#[tokio::test]
async fn a_service_tells_which_calls_are_in_doubt() {
    let served = Served::start(McpService::new(tools![pay, fail, say]).result_bytes(2_000)).await;
    let server = served.connect("it").await;
    let model = ScriptedProvider::new([
        reply().call("it__pay", json!({})).call("it__fail", json!({})).call("it__say", json!({})),
        reply().text("ok"),
    ]);
    let agent = Agent::builder(model.clone()).tools(server.tools());
    let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
    agent.run("Pay.").await.expect("an answer");
    let requests = model.requests();
    let told = requests.last().expect("a request").messages().last().expect("results");
    let results: Vec<_> =
        told.results().map(|it| (it.outcome(), it.content()[0].to_text())).collect();
    let doubt = "the bank has not answered. It may have partly run: check what it did before you repeat it.";
    let failed = "the bank has refused it. It may have partly run: no";
    let large = "the tool may have partly run, and what it hands over has 5065 bytes, more than the 2000 that this server \
                 sends. It may have partly run: check what it did before you repeat it.";
    assert_eq!(
        results,
        [
            (CallOutcome::InDoubt, Some(doubt.to_owned())),
            (CallOutcome::Failed, Some(failed.to_owned())),
            (CallOutcome::InDoubt, Some(large.to_owned())),
        ]
    );
}

/// The call has ended, and its answer was kept for a moment only.
#[tokio::test]
async fn an_answer_that_is_not_kept_any_more_is_gone() {
    let seen = Seen::new();
    let served = Served::start(service(&seen).resuming_time(Duration::from_millis(1))).await;
    let session = served.session().await;
    let (lost, last) = begun(&session, &seen).await;
    drop(lost);
    seen.ended.notified().await;
    for _ in 0..100 {
        let back = session.of(client().get(&served.url)).header("accept", "text/event-stream");
        let back = back.header("last-event-id", &last).send().await.expect("an answer");
        if back.status() == StatusCode::GONE {
            return;
        }
        // It has the answer, or the call has not ended yet.
        assert_eq!(back.status(), StatusCode::OK);
        assert_eq!(other_sum(&served).await, "3");
    }
    panic!("the stream never ends");
}

async fn other_sum(served: &Served) -> String {
    let other = served.session().await;
    let answer = other.post(&add()).send().await.expect("an answer").text().await.expect("a body");
    let event = answer.lines().filter_map(|line| line.strip_prefix("data:"));
    let event = event.filter_map(|data| serde_json::from_str::<Value>(data).ok()).next_back();
    let event = event.expect("an event");
    event["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_session_that_is_deleted_ends_its_calls() {
    let seen = Seen::new();
    let served = Served::start(service(&seen).at_once(1)).await;
    let session = served.session().await;
    let _open = session.post(&work(70)).send().await.expect("an answer");
    seen.begun.notified().await;
    let ended = session.of(client().delete(&served.url)).send().await.expect("an answer");
    assert!(ended.status().is_success(), "{}", ended.status());
    seen.ended.notified().await;
    let gone = session.post(&add()).send().await.expect("an answer");
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    assert_eq!(other_sum(&served).await, "3");
}

#[tokio::test]
async fn sessions_without_a_call_make_place_for_others() {
    let seen = Seen::new();
    let served = Served::start(service(&seen)).await;
    let busy = served.session().await;
    let working = busy.post(&work(70)).send().await.expect("an answer");
    seen.begun.notified().await;
    let oldest = served.session().await;
    let client = client();
    for _ in 0..1024 {
        let begun = client
            .post(&served.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(begin().to_string())
            .send()
            .await
            .expect("an answer");
        assert_eq!(begun.status(), StatusCode::OK);
        begun.bytes().await.expect("a body");
    }
    // The one without a call has made place; the one with a call has not.
    let gone = oldest.post(&add()).send().await.expect("an answer");
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    seen.go.add_permits(1);
    assert!(working.text().await.expect("a body").contains("worked"));
}
