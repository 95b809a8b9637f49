//! What remains of a stopped run: no process, no open connection, no task. And what is kept of an
//! answer when the connection is lost at any point.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, AnthropicProvider, CallOutcome, CancellationToken, Chat, ChatCompletionsProvider,
    ErrorKind, Event, Message, OpenAIProvider, Outcome, Permissions, Provider, RetryPolicy, Role,
    SideEffects, Tool, Transcript,
    testing::{
        Answer, ClosedBy, LoopbackServer, ReceivedRequest, anthropic, chat as chat_bodies,
        responses as responses_bodies,
    },
    toolbox::bash,
    tools,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::{
    probe::{Log, READ, WRITE},
    process, strict,
    transcripts::obeys,
};

/// How often is looked for what must come to be, and the breath between two looks.
const LOOKS: u32 = 600;
const BREATH: Duration = Duration::from_millis(20);

/// An answer is cut at each byte of so many, and at each with `HARNESS_SWEEP=1`.
const STRIDE: usize = 37;

/// The ways to stop a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The token of the run.
    Token,
    /// The future is dropped.
    Drop,
    /// The future is dropped by a time-out around it.
    TimeOut,
}

const WAYS: [Way; 3] = [Way::Token, Way::Drop, Way::TimeOut];

fn anthropic_at(server: &LoopbackServer) -> AnthropicProvider {
    let provider = AnthropicProvider::builder().api_key("none").base_url(server.url());
    provider.build().expect("a provider")
}

/// Says `Go.`, and stops the run in this way as soon as `ready` is.
async fn stopped(chat: &mut Chat, way: Way, ready: impl Future<Output = ()>) {
    let token = CancellationToken::new();
    let mut run = chat.send("Go.").cancel_with(token.clone()).into_future();
    tokio::select! {
        ended = &mut run => panic!("{way:?}: it was not to end: {ended:?}"),
        () = ready => {}
    }
    match way {
        Way::Token => {
            token.cancel();
            let stopped = run.await.expect_err("no answer");
            assert_eq!(stopped.outcome(), Outcome::Cancelled);
        }
        Way::Drop => drop(run),
        Way::TimeOut => {
            let late = tokio::time::timeout(Duration::from_millis(1), run).await;
            assert!(late.is_err(), "it was not to end");
        }
    }
}

/// Looks until it is so.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        tokio::time::sleep(BREATH).await;
    }
    panic!("waited for {what}");
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The established connections of this machine to or from this server's port.
fn sockets(server: &LoopbackServer) -> usize {
    let port: u16 =
        server.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let port = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").expect("the system's connections");
    let ours = table.lines().skip(1).filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 01 is an established connection.
        let (local, remote, state) = (fields[1], fields[2], fields[3]);
        state == "01" && (local.ends_with(&port) || remote.ends_with(&port))
    });
    ours.count()
}

fn last_result(transcript: &Transcript) -> (CallOutcome, String) {
    let last = transcript.messages().last().expect("results");
    let result = last.results().next().expect("a result");
    (result.outcome(), result.to_text())
}

#[tokio::test]
async fn nothing_is_left_of_a_command() {
    for way in WAYS {
        let mark = process::mark();
        let command = format!("echo begun; {}", process::stubborn(&mark));
        let call = anthropic::body().call("toolu_1", "bash", json!({"command": command}));
        let server = LoopbackServer::start([call]).await.expect("a port");
        let before = tasks();
        let agent = Agent::builder(anthropic_at(&server))
            .tools(tools![bash])
            .permissions(Permissions::allow_all())
            .build()
            .expect("an agent");
        let mut chat = agent.chat();
        stopped(&mut chat, way, async {
            let sleep =
                || process::with(&mark).iter().filter(|line| line.contains(": sleep ")).count();
            until("both sleepers", || sleep() == 2).await;
        })
        .await;

        until("no process", || process::with(&mark).is_empty()).await;
        let transcript = chat.transcript();
        obeys(transcript.sendable().expect("it can be sent"));
        let (outcome, text) = last_result(transcript);
        assert_eq!(outcome, CallOutcome::InDoubt, "{way:?}");
        assert!(text.contains("may have partly run"), "{way:?}: {text}");
        assert!(text.contains("begun"), "{way:?}: the output until then: {text}");

        // The connection whose answer was read to its end is the provider's, and may be used
        // again; with the provider it goes.
        drop((chat, agent));
        assert_eq!(server.closed(0).await, ClosedBy::Client, "{way:?}");
        until("no task more than before", || tasks() == before).await;
        until("no connection", || sockets(&server) == 0).await;
        server.shutdown().await;
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_command_that_took_too_long() {
    let mark = process::mark();
    let arguments = json!({"command": process::stubborn(&mark), "timeout_seconds": 1});
    let call = anthropic::body().call("toolu_1", "bash", arguments);
    let server = LoopbackServer::start([call, anthropic::body().text("Too slow.")]).await;
    let server = server.expect("a port");
    let before = tasks();
    let agent = Agent::builder(anthropic_at(&server))
        .tools(tools![bash])
        .permissions(Permissions::allow_all())
        .build()
        .expect("an agent");
    let reply = agent.run("Go.").await.expect("an answer");
    assert_eq!(reply.text(), "Too slow.");
    until("no process", || process::with(&mark).is_empty()).await;
    let result = &reply.transcript().messages()[2];
    let text = result.results().next().expect("a result").to_text();
    assert!(text.contains("stopped after 1 s"), "{text}");
    drop(agent);
    until("no task more than before", || tasks() == before).await;
    until("no connection", || sockets(&server) == 0).await;
}

#[tokio::test]
async fn nothing_is_left_of_an_answer_that_was_being_given() {
    for way in WAYS {
        let body = anthropic::body().text("One two three four.");
        let middle = body.to_string().find("four").expect("the last word");
        let server = LoopbackServer::start([body.answer().stall_at(middle)]).await.expect("a port");
        let before = tasks();
        let agent = Agent::builder(anthropic_at(&server)).build().expect("an agent");
        let mut chat = agent.chat();
        let told = CancellationToken::new();
        let shown = told.clone();
        let token = CancellationToken::new();
        let run = chat.send("Go.").cancel_with(token.clone()).on_event(move |event| {
            if let Event::Text(text) = event
                && text.contains("three")
            {
                shown.cancel();
            }
        });
        let mut run = run.into_future();
        tokio::select! {
            ended = &mut run => panic!("{way:?}: it was not to end: {ended:?}"),
            () = told.cancelled() => {}
        }
        match way {
            Way::Token => {
                token.cancel();
                run.await.expect_err("no answer");
            }
            Way::Drop => drop(run),
            Way::TimeOut => {
                let late = tokio::time::timeout(Duration::from_millis(1), run).await;
                assert!(late.is_err(), "it was not to end");
            }
        }

        // The agent lives on, and the connection is gone all the same.
        assert_eq!(server.closed(0).await, ClosedBy::Client, "{way:?}");
        assert_eq!(server.open_connections(), 0, "{way:?}");
        until("no connection", || sockets(&server) == 0).await;
        until("no task more than before", || tasks() == before).await;
        let kept = chat.transcript().messages()[1].text();
        assert_eq!(kept, "One two three \n\n[interrupted]", "{way:?}");
        let usage = chat.usage();
        assert_eq!(usage.input, Some(25), "{way:?}: what the vendor had counted: {usage:?}");
        drop(agent);
        server.shutdown().await;
    }
}

/// One vendor: who asks, what is answered, and what is refused.
struct Vendor {
    provider: fn(&LoopbackServer) -> Arc<dyn Provider>,
    /// Words and two calls, `look` and `write`.
    body: String,
    /// The words `Back.`
    back: Answer,
    refuses: fn(&Value) -> Result<(), String>,
    /// Whether a call says where it ends. Where it does not, calls are whole when the answer is:
    /// when its reason to stop has come and nothing follows that is cut itself.
    ends_calls: bool,
}

/// Tries again as ever, without the wait: an answer that is cut before its first event is retried.
fn at_once() -> RetryPolicy {
    RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() }
}

const SAID: &str = "One two.";
const ARGUMENTS: &str = r#"{"path":"a"}"#;

/// Loses the connection after each byte of the answer, and checks each time what is kept.
async fn cut_anywhere(name: &str, vendor: Vendor) {
    let Vendor { provider, body, back, refuses, ends_calls } = vendor;
    let refused = Arc::new(Mutex::new(Vec::new()));
    let whole = body.len();
    let (sent, told) = (body.clone(), Arc::clone(&refused));
    let server = LoopbackServer::answering(move |request: &ReceivedRequest| {
        if let Err(why) = refuses(&request.json()) {
            told.lock().expect("unpoisoned").push(why);
        }
        let text = request.text();
        let cut = text.split("Cut at ").nth(1).and_then(|rest| rest.split('.').next());
        let goes_on = text.contains("Go on.") || text.contains("is done");
        match cut.and_then(|cut| cut.parse::<usize>().ok()).filter(|_| !goes_on) {
            Some(cut) => Answer::sse(sent.clone()).cut_at(cut),
            None => back.clone(),
        }
    })
    .await
    .expect("a port");
    let before = tasks();
    let provider = provider(&server);
    let stride = if std::env::var_os("HARNESS_SWEEP").is_some() { 1 } else { STRIDE };
    let cuts = (0..whole).step_by(stride).chain([whole]);
    let ends = stream::iter(cuts)
        .map(|cut| cut_once(Arc::clone(&provider), cut))
        .buffered(8)
        .collect::<Vec<_>>()
        .await;
    assert_eq!(*refused.lock().expect("unpoisoned"), Vec::<String>::new());
    server.assert_finished();

    // What is kept grows with what has arrived: words, then one call, then the other.
    if ends_calls {
        assert!(ends.is_sorted_by_key(|end| end.calls), "a call is forgotten again");
    }
    assert_eq!(ends.iter().any(|end| end.calls == 1), ends_calls, "a call is whole by itself");
    assert!(ends.iter().any(|end| end.shown), "words are shown before a cut");
    let (last, middle) = (ends.last().expect("an end"), &ends[ends.len() / 2]);
    assert!(!middle.answered && last.answered, "all that was sent is an answer");
    drop(provider);
    until("no task more than before", || tasks() == before).await;
    until("no connection", || sockets(&server) == 0).await;
    println!("{name}: cut at {} points of {whole} bytes", ends.len());
}

/// What became of an answer that was cut.
struct End {
    answered: bool,
    shown: bool,
    calls: usize,
}

/// A tool that writes down its beginning and its end. Its arguments are whole or they are none.
fn noting(name: &'static str, effects: SideEffects, log: &Log) -> Tool {
    let log = log.clone();
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    });
    Tool::new(name, "Does its work.", schema, effects, move |_, arguments| {
        let log = log.clone();
        Box::pin(async move {
            log.note(format!("begin {name}"));
            assert_eq!(Value::Object(arguments).to_string(), ARGUMENTS);
            tokio::task::yield_now().await;
            log.note(format!("end {name}"));
            Ok(format!("{name} is done").into())
        })
    })
}

async fn cut_once(provider: Arc<dyn Provider>, cut: usize) -> End {
    let at = format!("cut at {cut}");
    let log = Log::default();
    let tools = [noting("look", READ, &log), noting("write", WRITE, &log)];
    let agent = Agent::builder(provider).tools(tools).build().expect("an agent");
    let mut chat = agent.chat();
    let mut shown = String::new();
    let run = chat.send(format!("Cut at {cut}.")).on_event(|event| match event {
        Event::Text(text) => shown.push_str(text),
        Event::TurnEnded { .. } => shown.clear(),
        _ => {}
    });
    let answered = match run.await {
        Ok(reply) => {
            assert_eq!(reply.text(), "Back.", "{at}");
            true
        }
        Err(stopped) => {
            assert_eq!(stopped.outcome(), Outcome::Failed, "{at}");
            let kind = stopped.error().map(harness::Error::kind);
            assert_eq!(kind, Some(ErrorKind::CutOff), "{at}: {stopped}");
            false
        }
    };
    let transcript = chat.transcript().clone();
    obeys(transcript.sendable().unwrap_or_else(|err| panic!("{at}: {err}")));

    // The words that were shown are kept.
    let messages = transcript.messages();
    let said = messages.get(1).filter(|message| message.role() == Role::Assistant);
    let kept = said.map(Message::text).unwrap_or_default();
    if !answered {
        assert!(SAID.starts_with(&shown) && kept.starts_with(&shown), "{at}: {shown:?}, {kept:?}");
    }
    // Whole calls are kept, in order, and nothing else.
    let calls: Vec<_> = messages.iter().flat_map(Message::calls).collect();
    for (call, name) in calls.iter().zip(["look", "write"]) {
        assert_eq!((call.name(), call.arguments()), (name, ARGUMENTS), "{at}");
    }
    assert!(calls.len() <= 2 && (!answered || calls.len() == 2), "{at}: {calls:?}");
    // Each is told as it was.
    for result in messages.iter().flat_map(Message::results) {
        let call = calls.iter().find(|call| call.id() == result.call_id()).expect("its call");
        let ended = log.has(&format!("end {}", call.name()));
        let began = log.has(&format!("begin {}", call.name()));
        let true_told = match result.outcome() {
            CallOutcome::Succeeded => ended,
            CallOutcome::NotStarted => !began,
            CallOutcome::StoppedReading => call.name() == "look" && began,
            _ => false,
        };
        assert!(true_told, "{at}: `{}` is told as {:?}", call.name(), result.outcome());
    }
    assert!(answered || !log.has("begin write"), "{at}: an answer that is not whole wrote");

    // The conversation goes on, and nothing of it changes.
    let next = chat.send("Go on.").await.unwrap_or_else(|err| panic!("{at}: {err}"));
    assert_eq!(next.text(), "Back.", "{at}");
    assert_eq!(&chat.transcript().messages().range(..messages.len()), messages, "{at}");
    End { answered, shown: !shown.is_empty(), calls: calls.len() }
}

#[tokio::test]
async fn an_answer_of_anthropic_that_is_cut_anywhere_leaves_the_truth() {
    let body = anthropic::body().without_ping().text(SAID);
    let vendor = Vendor {
        provider: |server| Arc::new(anthropic_at(server).with_retry(at_once())),
        body: body.call_text("a", "look", ARGUMENTS).call_text("b", "write", ARGUMENTS).to_string(),
        back: anthropic::body().text("Back.").answer(),
        refuses: strict::anthropic,
        ends_calls: true,
    };
    cut_anywhere("anthropic", vendor).await;
}

#[tokio::test]
async fn an_answer_of_responses_that_is_cut_anywhere_leaves_the_truth() {
    let body = responses_bodies::body().text(SAID);
    let vendor = Vendor {
        provider: |server| {
            let provider = OpenAIProvider::builder().api_key("none").base_url(server.url());
            Arc::new(provider.build().expect("a provider").with_retry(at_once()))
        },
        body: body.call_text("a", "look", ARGUMENTS).call_text("b", "write", ARGUMENTS).to_string(),
        back: responses_bodies::body().text("Back.").answer(),
        refuses: strict::responses,
        ends_calls: true,
    };
    cut_anywhere("responses", vendor).await;
}

#[tokio::test]
async fn an_answer_of_chat_completions_that_is_cut_anywhere_leaves_the_truth() {
    let body = chat_bodies::body().text(SAID);
    let vendor = Vendor {
        provider: |server| {
            let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
            Arc::new(provider.build().expect("a provider").with_retry(at_once()))
        },
        body: body.call_text("a", "look", ARGUMENTS).call_text("b", "write", ARGUMENTS).to_string(),
        back: chat_bodies::body().text("Back.").answer(),
        refuses: strict::chat,
        ends_calls: false,
    };
    cut_anywhere("chat", vendor).await;
}
