//! Approvals: answers that are replayed or forged, reviews that change or never end, data
//! that leaves after failed reads, and failures whose doubt is wrapped.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Error, ErrorKind, Message, Outcome, Permissions,
    SideEffect, SideEffects, State, Tool, ToolCall, ToolError,
    journal::LimitKind,
    message::Arguments,
    policy::{Approval, ApprovalRequest, DataFlowPolicy, Guardrails},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
    tool,
    tool::{Preview, Review, Scope},
    tools,
};
use serde_json::{Value, json};

use crate::{
    approvers::{Asked, person},
    door::Door,
    probe::{Log, MUTATE, READ, WRITE, Work, takes_all, tool as probe},
};

fn script<const N: usize>(replies: [ScriptedReply; N]) -> ScriptedProvider {
    ScriptedProvider::new(replies.into_iter().chain([reply().text("Done.")]))
}

fn count(asked: &Asked) -> usize {
    asked.lock().expect("unpoisoned").len()
}

/// What is told of each call.
fn results(chat: &Chat) -> Vec<(CallOutcome, String)> {
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    results.map(|result| (result.outcome(), result.to_text())).collect()
}

/// Runs one tool once or more, with a person to ask.
async fn asked_about<const N: usize>(
    tool: Tool,
    calls: [ScriptedReply; N],
    answer: impl Fn(&ApprovalRequest) -> Approval + Clone + Send + Sync + 'static,
) -> Asked {
    let (asked, approver) = person(answer);
    let agent = Agent::builder(script(calls)).tools([tool]).approver(approver).build();
    agent.expect("an agent").run("Go.").await.expect("an answer");
    asked
}

#[tokio::test]
async fn an_answer_that_was_kept_counts_in_no_other_conversation() {
    for from_transcript in [false, true] {
        let log = Log::default();
        let kept: Arc<Mutex<Option<Approval>>> = Arc::default();
        let (asked, approver) = person(move |question| {
            let mut kept = kept.lock().expect("unpoisoned");
            // Through JSON, as with a page in a browser.
            let approval = kept.get_or_insert_with(|| question.yes());
            let text = serde_json::to_string(approval).expect("JSON");
            serde_json::from_str(&text).expect("an approval")
        });
        let model = ScriptedProvider::answering(|request| match request.results().count() {
            0 if request.last_text().contains("Hello") => reply().text("Hi."),
            0 => reply().call_with_id("call_1", "pay", json!({"cents": 1})),
            _ => reply().text("Done."),
        });
        let agent = Agent::builder(model).tools([takes_all("pay", MUTATE, &log)]);
        let agent = agent.approver(approver).build().expect("an agent");
        let mut hello = agent.chat();
        hello.send("Hello").await.expect("an answer");
        let message = Message::user("Pay.");
        for _ in 0..2 {
            let mut chat = match from_transcript {
                true => agent.chat_from(hello.transcript().clone()),
                false => agent.chat(),
            };
            chat.send(message.clone()).await.expect("an answer");
        }
        assert_eq!(count(&asked), 2, "from a transcript: {from_transcript}");
        assert_eq!(log.lines().len(), 1, "from a transcript: {from_transcript}");
    }
}

#[tokio::test]
async fn a_scope_that_the_question_does_not_offer_stands_for_no_other_call() {
    for forge in 0..5 {
        let log = Log::default();
        let (asked, approver) = person(move |question| {
            let exact = serde_json::to_value(&question.scopes[0]).expect("JSON");
            let approval = question.always_for(&question.scopes[0]);
            let mut approval = serde_json::to_value(approval).expect("JSON");
            let scope = |key: &str, shown: &str| json!({"key": key, "shown": shown});
            approval["answer"]["scope"] = match forge {
                0 => scope("host:b.example", "every request to b.example"),
                1 => scope("host:a.example", "one request"),
                2 => scope("", ""),
                3 => {
                    let other = ToolCall::new("x", "fetch", r#"{"host":"b.example"}"#);
                    let (this, other) =
                        (question.fingerprint.to_string(), other.fingerprint().to_string());
                    scope(&exact["key"].as_str().expect("a key").replace(&this, &other), "")
                }
                _ => scope("host:b.example", exact["shown"].as_str().expect("shown")),
            };
            serde_json::from_value(approval).expect("an approval")
        });
        let fetch = |host: &str| reply().call("fetch", json!({"host": host}));
        let by_host = takes_all("fetch", READ, &log).with_review(|arguments: &Arguments| {
            let host = arguments.get("host").and_then(Value::as_str).unwrap_or_default();
            Review::ask("host")
                .with_scope(Scope::new(format!("host:{host}"), format!("every request to {host}")))
        });
        let agent = Agent::builder(script([fetch("a.example"), fetch("b.example")]));
        let agent = agent.tools([by_host]).approver(approver).build().expect("an agent");
        let mut chat = agent.chat();
        chat.send("Go.").await.expect("an answer");
        assert_eq!(count(&asked), 2, "{forge}");
        // Only the second question offers what the first forgery names.
        let granted: Vec<&str> = chat.grants().iter().map(|grant| grant.call.as_str()).collect();
        assert_eq!(granted, if forge == 0 { vec!["call_2"] } else { vec![] }, "{forge}");
    }
}

#[tokio::test]
async fn a_scope_of_one_tool_does_not_stand_for_another_tool() {
    let log = Log::default();
    let (asked, approver) =
        person(|question| question.always_for(question.scopes.last().expect("a scope")));
    let call = |name: &str, x: u8| reply().call(name, json!({ "x": x }));
    let review = |_: &Arguments| Review::ask("hm").with_scope(Scope::new("all", "all"));
    let tools = ["a", "b"].map(|name| takes_all(name, MUTATE, &log).with_review(review));
    let agent = Agent::builder(script([call("a", 0), call("b", 0), call("a", 1)])).tools(tools);
    agent.approver(approver).build().expect("an agent").run("Go.").await.expect("an answer");
    let asked: Vec<String> =
        asked.lock().expect("unpoisoned").iter().map(|question| question.tool.clone()).collect();
    assert_eq!(asked, ["a", "b"]);
    assert_eq!(log.lines().len(), 3);
}

#[tokio::test]
async fn always_does_not_answer_another_reason_of_the_same_review() {
    let log = Log::default();
    let git = takes_all("git", WRITE, &log).with_review(|arguments: &Arguments| {
        let sub = arguments.get("sub").and_then(Value::as_str).unwrap_or_default();
        let review = match sub.contains("--force") {
            true => Review::ask("this destroys the history of everybody")
                .with_preview(Preview::Text("100 commits are lost".into())),
            false => Review::ask("it runs in a repository of yours"),
        };
        review.with_scope(Scope::new("repo:x", "every git command in x"))
    });
    let run = |sub: &str| reply().call("git", json!({"sub": sub}));
    let asked = asked_about(git, [run("status"), run("push --force")], |question| {
        question.always_for(question.scopes.last().expect("the repository"))
    });
    assert_eq!(count(&asked.await), 2, "{:?}", log.lines());
}

#[tokio::test]
async fn always_for_exactly_this_call_does_not_answer_another_reason_and_preview() {
    let log = Log::default();
    let world = log.clone();
    let save = takes_all("save", WRITE, &log).with_review(move |_| match world.lines().len() {
        0 => Review::ask("`x` is empty").with_preview(Preview::Text("+1".into())),
        _ => Review::ask("`x` is run by root").with_preview(Preview::Text("-1000".into())),
    });
    let call = || reply().call("save", json!({"path": "x"}));
    assert_eq!(count(&asked_about(save, [call(), call()], ApprovalRequest::always).await), 2);
}

#[tokio::test]
async fn a_call_does_not_run_in_another_folder_than_the_one_that_was_shown() {
    for asks in [true, false] {
        let (log, reviews) = (Log::default(), AtomicUsize::new(0));
        let act = takes_all("act", MUTATE, &log).with_review(move |_| {
            let review = if asks { Review::ask("hm") } else { Review::pass() };
            review.in_folder(format!("/f{}", reviews.fetch_add(1, Ordering::SeqCst)))
        });
        let asked = asked_about(act, [reply().call("act", json!({}))], ApprovalRequest::yes).await;
        assert_eq!(count(&asked), 1, "{asks}");
        assert_eq!(log.lines(), [""; 0], "the person saw /f0; the review asks: {asks}");
    }
}

#[tokio::test]
async fn always_in_one_folder_is_none_in_another() {
    for wide in [false, true] {
        let log = Log::default();
        let world = log.clone();
        let act = takes_all("act", MUTATE, &log)
            .with_review(move |_| Review::pass().in_folder(format!("/f{}", world.lines().len())));
        let call = || reply().call("act", json!({}));
        let asked = asked_about(act, [call(), call()], move |question| match wide {
            true => question.always_for(question.scopes.last().expect("a scope")),
            false => question.always(),
        });
        assert_eq!(count(&asked.await), 2, "{wide}");
    }
}

#[tokio::test]
async fn what_was_shown_is_compared_also_if_the_second_review_asks_nothing() {
    // Once the side effect asks and the review only shows, and once the reason goes away.
    for (effects, asks) in [(MUTATE, false), (WRITE, true)] {
        let (log, reviews) = (Log::default(), AtomicUsize::new(0));
        let act = takes_all("act", effects, &log).with_review(move |_| {
            match reviews.fetch_add(1, Ordering::SeqCst) {
                0 if asks => Review::ask("it is there"),
                0 => Review::pass(),
                _ => return Review::pass().with_preview(Preview::Text("100000 rows".into())),
            }
            .with_preview(Preview::Text("1 row".into()))
        });
        let asked = asked_about(act, [reply().call("act", json!({}))], ApprovalRequest::yes).await;
        let shown = asked.lock().expect("unpoisoned")[0].preview.clone();
        assert_eq!(shown, Some(Preview::Text("1 row".into())), "{asks}");
        assert_eq!(log.lines(), [""; 0], "the person saw one row; the review asks: {asks}");
    }
}

/// A tool whose n-th review waits at a door, and what is known of both.
struct Stuck {
    door: Arc<Door>,
    left: Arc<AtomicUsize>,
    log: Log,
    tool: Tool,
}

impl Drop for Stuck {
    /// Lets the review go also if the test fails, so that the runtime can end.
    fn drop(&mut self) {
        self.door.open();
    }
}

fn stuck_in_review(at: usize) -> Stuck {
    let (door, left, log) = (Arc::<Door>::default(), Arc::<AtomicUsize>::default(), Log::default());
    let (inner, leaves, reviews) = (Arc::clone(&door), Arc::clone(&left), AtomicUsize::new(0));
    let tool = takes_all("act", MUTATE, &log).with_review(move |_| {
        if reviews.fetch_add(1, Ordering::SeqCst) + 1 == at {
            inner.pass();
            leaves.fetch_add(1, Ordering::SeqCst);
        }
        Review::pass()
    });
    Stuck { door, left, log, tool }
}

impl Stuck {
    fn chat(&self, rails: Guardrails) -> Chat {
        let agent = Agent::builder(script([reply().call("act", json!({}))]));
        let agent = agent.tools([self.tool.clone()]).permissions(Permissions::allow_all());
        agent.guardrails(rails).build().expect("an agent").chat()
    }

    async fn came(&self) {
        while self.door.came() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock by hand: it stands still while a thread for blocking work runs.
    async fn clock(&self) {
        self.came().await;
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }

    /// Ends the review and gives what it may have let through time to run.
    async fn ran_behind(&self) -> Vec<String> {
        self.door.open();
        while self.left.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        self.log.lines()
    }
}

#[tokio::test]
async fn a_review_that_never_ends_keeps_no_stop_away() {
    for (at, outcome) in [(1, CallOutcome::NotStarted), (2, CallOutcome::InDoubt)] {
        let stuck = stuck_in_review(at);
        let mut chat = stuck.chat(Guardrails::default());
        let token = CancellationToken::new();
        let run = chat.send("Go.").cancel_with(token.clone()).into_future();
        let stop = async {
            stuck.came().await;
            token.cancel();
        };
        tokio::join!(run, stop).0.expect_err("stopped");
        assert_eq!(results(&chat)[0].0, outcome, "{at}");
        assert_eq!(stuck.ran_behind().await, [""; 0], "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_ends_the_review_right_before_it() {
    let stuck = stuck_in_review(2);
    let mut chat = stuck.chat(Guardrails::default());
    let run = chat.send("Go.").tool_time(Duration::from_secs(5)).into_future();
    tokio::select! {
        reply = run => { reply.expect("an answer"); }
        () = stuck.clock() => {}
    }
    let (outcome, text) = results(&chat).remove(0);
    assert_eq!(outcome, CallOutcome::Failed);
    assert!(text.contains("its review took too long") && text.contains("did not run"), "{text}");
    assert_eq!(stuck.ran_behind().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_stops_its_reviews() {
    for at in [1, 2] {
        let stuck = stuck_in_review(at);
        let mut chat = stuck.chat(Guardrails::default().time(Duration::from_secs(5)));
        let run = chat.send("Go.").into_future();
        tokio::select! {
            ended = run => {
                let stopped = ended.expect_err("stopped");
                assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time), "{at}");
            }
            () = stuck.clock() => {}
        }
        assert_eq!(stuck.ran_behind().await, [""; 0], "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_includes_its_waits_between_tries() {
    let schema = json!({"type": "object", "properties": {}});
    let busy = Tool::new("act", "Acts.", schema, READ, |_, _| {
        Box::pin(async { Err(ToolError::transient("busy")) })
    });
    let limits = harness::ToolLimits::default().tries(3).backoff(Duration::from_secs(100));
    let agent = Agent::builder(script([reply().call("act", json!({}))])).tools([busy]);
    let agent = agent.tool_limits(limits).build().expect("an agent");
    // The clock that stands still moves only by what is waited for.
    let begun = tokio::time::Instant::now();
    agent.run("Go.").tool_time(Duration::from_secs(1)).await.expect("an answer");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_always_of_a_chat_is_not_in_another_chat_from_its_transcript() {
    let log = Log::default();
    let (asked, approver) = person(ApprovalRequest::always);
    let model = ScriptedProvider::answering(|request| match request.last_text().contains("Go") {
        true => reply().call("pay", json!({"cents": 1})),
        false => reply().text("Done."),
    });
    let agent = Agent::builder(model).tools([takes_all("pay", MUTATE, &log)]).approver(approver);
    let agent = agent.build().expect("an agent");
    let mut chat = agent.chat();
    chat.send("Go").await.expect("an answer");
    let mut other = agent.chat_from(chat.transcript().clone());
    assert_eq!((chat.grants().len(), other.grants().len()), (1, 0));
    other.send("Go").await.expect("an answer");
    assert_eq!(count(&asked), 2);
}

#[tokio::test]
async fn what_is_shown_is_what_runs_also_when_a_number_is_too_big() {
    let log = Log::default();
    let pay = |text: &str| reply().call_text("pay", text);
    let calls = [pay(r#"{"to":18446744073709551616}"#), pay(r#"{"to":18446744073709551617}"#)];
    let asked = asked_about(takes_all("pay", MUTATE, &log), calls, ApprovalRequest::yes).await;
    let shown: Vec<String> = asked
        .lock()
        .expect("unpoisoned")
        .iter()
        .map(|question| format!("pay {}", question.arguments))
        .collect();
    assert_eq!((shown.len(), shown), (2, log.lines()));
}

#[test]
fn a_member_is_found_twice_however_it_is_spelled() {
    for text in [
        r#"{"a":1,"\u0061":2}"#,
        r#"{"x":[{"a":1,"\u0061":2}]}"#,
        r#"{"x":{"":1,"":2}}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
    ] {
        let error = Arguments::decode(text).expect_err("twice").to_string();
        assert!(error.contains("twice"), "{text}: {error}");
    }
    let print = |text: &str| ToolCall::new("x", "y", text).fingerprint();
    assert_ne!(print(r#"{"a":"1"}"#), print(r#"{"a":1}"#));
    assert_ne!(print(r#"{"a":["b","c"]}"#), print(r#"{"a":["b,c"]}"#));
    // Too deep is an error, and no overflow of the stack.
    for depth in [98, 99, 100, 128, 100_000] {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(Arguments::decode(&text).is_ok(), depth < 100, "{depth}");
        assert_eq!(print(&text), print(&text), "{depth}");
    }
}

// What may carry data out.

#[tokio::test(start_paused = true)]
async fn a_read_that_ended_otherwise_counts_as_a_read() {
    let read = |name: &str| reply().call(name, json!({}));
    let no = || Error::new(ErrorKind::Api, "no");
    for (what, first) in [
        ("whole", read("mail")),
        ("cut", read("mail").text("So").cut()),
        ("let go of", read("mail").text("So").stall()),
        ("failed", read("fails")),
        ("stopped", read("stuck")),
        ("an error", read("mail").text("So").error(no())),
        ("too long", read("mail").stop(harness::StopReason::Truncated)),
    ] {
        let log = Log::default();
        let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
        let model = script([first, reply().call("fetch", json!({"q": "secret"}))]);
        let (asked, approver) = person(|question| question.no("no"));
        let reads =
            [("mail", Work::Steps(0)), ("fails", Work::Fails), ("stuck", Work::Gate(Gate::new()))];
        let policy = reads.iter().fold(DataFlowPolicy::default(), |policy, (name, _)| {
            policy.private(*name).untrusted(*name)
        });
        let agent = Agent::builder(model)
            .tools(reads.map(|(name, work)| probe(name, SideEffects::NONE, &log, work)))
            .tools([takes_all("fetch", looks, &log)])
            .permissions(Permissions::default().data_flow(policy))
            .approver(approver);
        let mut chat = agent.build().expect("an agent").chat();
        let limit = Duration::from_secs(1);
        let run = tokio::time::timeout(limit, chat.send("Go.").into_future()).await;
        if !matches!(run, Ok(Ok(_))) {
            chat.resume().await.expect("an answer");
        }
        assert!(log.lines()[0].starts_with("begin "), "{what}: {:?}", log.lines());
        assert_eq!(count(&asked), 1, "{what}: {:?}", results(&chat));
        assert!(!log.lines().iter().any(|line| line.starts_with("fetch")), "{what}");
    }
}

#[tokio::test]
async fn a_read_that_was_denied_counts_as_none() {
    let log = Log::default();
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    let model = script([
        reply().call("mail", json!({})).call("fetch", json!({"q": 1})),
        reply().call("fetch", json!({"q": 2})),
    ]);
    let (asked, approver) = person(|question| question.no("no"));
    let agent = Agent::builder(model)
        .tools([takes_all("mail", READ, &log), takes_all("fetch", looks, &log)])
        .permissions(Permissions::default().deny("mail", "no").data_flow(DataFlowPolicy::default()))
        .approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    assert_eq!(count(&asked), 0);
    assert_eq!(log.lines(), [r#"fetch {"q":1}"#, r#"fetch {"q":2}"#]);
}

// What is told of a failure that is wrapped.

#[derive(Debug, thiserror::Error)]
#[error("the shop: {0}")]
struct Shop(#[source] ToolError);

/// Pays.
#[tool(side_effects = "write")]
fn pay_anyhow() -> anyhow::Result<()> {
    Err(ToolError::in_doubt("the bank did not answer"))?;
    Ok(())
}

/// Pays.
#[tool(side_effects = "write")]
fn pay_context() -> anyhow::Result<()> {
    use anyhow::Context as _;
    Err(ToolError::in_doubt("the bank did not answer")).context("paying")?;
    Ok(())
}

/// Pays.
#[tool(side_effects = "write")]
fn pay_boxed() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err(ToolError::in_doubt("the bank did not answer"))?;
    Ok(())
}

/// Pays.
#[tool(side_effects = "write")]
fn pay_source() -> Result<(), Shop> {
    Err(Shop(ToolError::in_doubt("the bank did not answer")))
}

#[tokio::test]
async fn a_doubt_that_is_wrapped_is_still_a_doubt() {
    for tool in [pay_anyhow::tool(), pay_context::tool(), pay_boxed::tool(), pay_source::tool()] {
        let name = tool.name().to_owned();
        let agent = Agent::builder(script([reply().call(&name, json!({}))])).tools([tool]).build();
        let mut chat = agent.expect("an agent").chat();
        chat.send("Go.").await.expect("an answer");
        let (outcome, text) = results(&chat).remove(0);
        assert_eq!(outcome, CallOutcome::InDoubt, "{name}: {text}");
    }
}

/// Fails.
#[tool(side_effects = "read")]
fn busy(tries: State<Arc<AtomicUsize>>) -> anyhow::Result<()> {
    use anyhow::Context as _;
    tries.fetch_add(1, Ordering::SeqCst);
    Err(ToolError::transient("busy")).context("the shop")
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_with_context_is_tried_again() {
    let tries = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder(script([reply().call("busy", json!({}))])).tools(tools![busy]);
    let agent = agent.state(Arc::clone(&tries)).build().expect("an agent");
    agent.run("Go.").await.expect("an answer");
    assert!(tries.load(Ordering::SeqCst) > 1);
}
