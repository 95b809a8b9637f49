//! Program code that panics, at each place where the library runs it: the panic becomes an error or
//! a result, never a panic of `send` and never an abort, and the conversation continues.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, stream};
use harness::{
    Agent, CallOutcome, CancellationToken, Error, ErrorKind, Event, Outcome, Permissions, Provider,
    SideEffects, StreamEvent, Tool, ToolContext, ToolError, ToolOutput,
    agent::AgentBuilder,
    journal::{Fact, Journal},
    policy::{Approval, ApprovalRequest},
    provider::{EventStream, Request},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::kept::{Watched, kept_in};
use crate::probe::{Log, MUTATE, READ, WRITE, Work, tool};

fn schema() -> serde_json::Value {
    json!({"type": "object", "properties": {}})
}

/// Runs one call of `act` and gives what the model was told of it. The conversation goes on after it.
async fn told(act: Tool, build: impl Fn(AgentBuilder) -> AgentBuilder) -> (CallOutcome, String) {
    let model = ScriptedProvider::new([
        reply().call("act", json!({})),
        reply().text("Done."),
        reply().text("Back."),
    ]);
    let agent = build(Agent::builder(model.clone()).tools([act])).build().expect("an agent");
    let mut chat = agent.chat();
    chat.send("Go.").await.expect("an answer");
    assert_eq!(chat.send("On.").await.expect("it goes on").text(), "Back.");
    let requests = model.requests();
    let result = requests[1].results().last().expect("a result");
    (result.outcome(), result.to_text())
}

#[tokio::test]
async fn a_rule_an_approver_and_a_review_that_panic_deny() {
    let log = Log::default();
    let act = || tool("act", MUTATE, &log, Work::Steps(0));
    let rule = Permissions::default().rule("weak", |_| panic!("the rule fell"));
    let (outcome, text) = told(act(), |agent| agent.permissions(rule.clone())).await;
    assert_eq!(outcome, CallOutcome::Denied);
    assert!(text.contains("`weak`") && text.contains("the rule fell"), "{text}");

    let (outcome, text) = told(act(), |agent| {
        agent.approver(|_: ApprovalRequest| async { panic!("the screen fell") })
    })
    .await;
    assert_eq!(outcome, CallOutcome::Denied);
    assert!(text.contains("the screen fell"), "{text}");

    let at_once = |_: ApprovalRequest| -> std::future::Ready<Approval> { panic!("at once") };
    let (outcome, text) = told(act(), |agent| agent.approver(at_once)).await;
    assert_eq!(outcome, CallOutcome::Denied);
    assert!(text.contains("at once"), "{text}");

    let reviewed = act().with_review(|_| panic!("the review fell"));
    let (outcome, text) = told(reviewed, |agent| agent).await;
    assert_eq!(outcome, CallOutcome::Denied);
    assert!(text.contains("the review fell"), "{text}");
    assert_eq!(log.lines(), [""; 0]);
}

#[tokio::test]
async fn a_tool_that_panics_is_in_doubt_unless_it_only_reads() {
    let log = Log::default();
    let allow = |agent: AgentBuilder| agent.permissions(Permissions::allow_all());
    for (effects, expected) in [
        (SideEffects::NONE, CallOutcome::Failed),
        (READ, CallOutcome::Failed),
        (WRITE, CallOutcome::InDoubt),
        (MUTATE, CallOutcome::InDoubt),
        (SideEffects::ALL, CallOutcome::InDoubt),
    ] {
        let (outcome, text) = told(tool("act", effects, &log, Work::Panics), allow).await;
        assert_eq!(outcome, expected, "{effects}");
        assert!(text.contains("act fell"), "{text}");
        assert_eq!(
            text.contains("may have partly run"),
            expected == CallOutcome::InDoubt,
            "{text}"
        );
        // The same at the moment of the call, before there is a future.
        let at_once = Tool::new("act", "Falls.", schema(), effects, |_, _| panic!("at once"));
        assert_eq!(told(at_once, allow).await.0, expected, "{effects}");
    }
}

#[tokio::test]
async fn a_tool_can_say_that_it_does_not_know() {
    let doubtful = |effects| {
        Tool::new("act", "Asks.", schema(), effects, |_, _| {
            Box::pin(async { Err(ToolError::in_doubt("the bank did not answer")) })
        })
    };
    let allow = |agent: AgentBuilder| agent.permissions(Permissions::allow_all());
    let (outcome, text) = told(doubtful(WRITE), allow).await;
    assert_eq!(outcome, CallOutcome::InDoubt);
    assert!(text.starts_with("the bank did not answer. It may have partly run"), "{text}");
    assert_eq!(told(doubtful(READ), allow).await.0, CallOutcome::Failed);
    // Of a text of many lines the others are not touched.
    let told_more = Tool::new("act", "Asks.", schema(), WRITE, |_, _| {
        Box::pin(async { Err(ToolError::in_doubt("the bank hung up\nlog:\nsent 1")) })
    });
    let expected = "the bank hung up. It may have partly run: check what it did before you repeat \
                    it.\nlog:\nsent 1";
    assert_eq!(told(told_more, allow).await.1, expected);
}

/// A future that panics when it is dropped, and never ends.
struct Falls;

impl Future for Falls {
    type Output = Result<ToolOutput, ToolError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl Drop for Falls {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_future_panics_while_it_is_dropped_is_told_as_stopped() {
    let falls = |effects| Tool::new("act", "Falls.", schema(), effects, |_, _| Box::pin(Falls));
    // By its time limit, by the program, and by letting go of the run.
    let limit = std::time::Duration::from_secs(1);
    let (outcome, _) = told(falls(WRITE).with_time_limit(limit), |agent| agent).await;
    assert_eq!(outcome, CallOutcome::InDoubt);
    for (effects, drops) in [(WRITE, false), (READ, false), (WRITE, true), (READ, true)] {
        let model = ScriptedProvider::new([reply().call("act", json!({})), reply().text("Back.")]);
        let agent = Agent::builder(model).tools([falls(effects)]).early_start(false);
        let agent = agent.build().expect("an agent");
        let (mut chat, token) = (agent.chat(), CancellationToken::new());
        let stop = token.clone();
        let run = chat.send("Go.").cancel_with(token).on_event(move |event| {
            if let (Event::ToolCall(_), false) = (event, drops) {
                stop.cancel();
            }
        });
        match drops {
            true => {
                let run =
                    tokio::time::timeout(std::time::Duration::from_secs(5), run.into_future());
                run.await.expect_err("it never ends");
            }
            false => _ = run.await.expect_err("stopped"),
        }
        let last = chat.transcript().messages().last().expect("results").clone();
        let outcome = last.results().next().expect("a result").outcome();
        let expected =
            if effects == READ { CallOutcome::StoppedReading } else { CallOutcome::InDoubt };
        assert_eq!(outcome, expected, "{effects}, {drops}");
        assert_eq!(chat.send("On.").await.expect("it goes on").text(), "Back.");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_has_put_out_may_panic_when_it_is_asked_for() {
    let lock = Arc::new(std::sync::Mutex::new(()));
    let poisons = Arc::clone(&lock);
    let act = Tool::new("act", "Waits.", schema(), WRITE, move |context: ToolContext, _| {
        let lock = Arc::clone(&poisons);
        let said = Arc::clone(&lock);
        context.on_stop(move || format!("{:?}", said.lock().expect("the lock of the tool")));
        Box::pin(async move {
            let poison = std::thread::spawn(move || {
                let _held = lock.lock();
                panic!("poisoned");
            });
            _ = poison.join();
            std::future::pending().await
        })
    });
    let limit = std::time::Duration::from_secs(1);
    let (outcome, text) = told(act.with_time_limit(limit), |agent| agent).await;
    assert_eq!(outcome, CallOutcome::InDoubt);
    assert!(
        text.contains("the function for the output so far panicked: the lock of the tool"),
        "{text}"
    );
    assert!(lock.is_poisoned());
}

/// A provider that panics at one of its places.
struct Weak {
    inner: ScriptedProvider,
    at: &'static str,
    left: AtomicUsize,
}

impl Provider for Weak {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        if self.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            self.left.store(0, Ordering::SeqCst);
            return self.inner.stream(request);
        }
        match self.at {
            "the call" => panic!("weak"),
            "a poll" => Box::pin(stream::poll_fn(|_| panic!("weak"))),
            _ => Box::pin(FallsWhenDropped(false)),
        }
    }
}

struct FallsWhenDropped(bool);

impl futures_util::Stream for FallsWhenDropped {
    type Item = Result<StreamEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match std::mem::replace(&mut self.0, true) {
            false => Poll::Ready(Some(Ok(StreamEvent::TextDelta { block: 0, text: "Hm".into() }))),
            true => Poll::Ready(None),
        }
    }
}

impl Drop for FallsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test]
async fn a_provider_that_panics_fails_the_run() {
    for (at, kind) in [
        ("the call", ErrorKind::Panicked),
        ("a poll", ErrorKind::Panicked),
        ("its end", ErrorKind::CutOff),
    ] {
        let inner = ScriptedProvider::new([reply().text("Back.")]);
        let weak = Weak { inner, at, left: AtomicUsize::new(1) };
        let mut chat = Agent::builder(weak).build().expect("an agent").chat();
        let stopped = chat.send("Go.").await.expect_err("it fell");
        assert_eq!(stopped.outcome(), Outcome::Failed, "{at}");
        assert_eq!(stopped.error().expect("why").kind(), kind, "{at}");
        assert_eq!(chat.send("On.").await.expect("it goes on").text(), "Back.", "{at}");
    }
}

/// A journal that panics at each append from the n-th on.
fn falling(left: usize) -> impl Journal + Clone + 'static {
    let left = Arc::new(AtomicUsize::new(left));
    Watched::new(move |_: &[Fact]| {
        let now = left.load(Ordering::SeqCst);
        left.store(now.checked_sub(1).expect("the disk fell"), Ordering::SeqCst);
        Ok(())
    })
}

#[tokio::test]
async fn a_journal_that_panics_fails_the_run_and_leaves_a_conversation_that_can_be_sent() {
    let log = Log::default();
    let mut fell = 0;
    for appends in 0..8 {
        let model = ScriptedProvider::new([
            reply().text("Look.").call("look", json!({})).call("write", json!({})),
            reply().text("Done."),
        ]);
        let tools =
            [tool("look", READ, &log, Work::Steps(0)), tool("write", WRITE, &log, Work::Steps(0))];
        let agent = Agent::builder(model).tools(tools).build().expect("an agent");
        let mut chat = kept_in(&agent, &falling(appends));
        if let Err(stopped) = chat.send("Go.").await {
            fell += 1;
            let error = stopped.error().expect("why");
            assert_eq!(error.kind(), ErrorKind::Journal, "{appends}");
            assert!(error.to_string().contains("the disk fell"), "{appends}: {error}");
            stopped.transcript().sendable().unwrap_or_else(|err| panic!("{appends}: {err}"));
        }
    }
    assert!(fell > 2 && fell < 8, "{fell} of 8 journals fell");
}

#[tokio::test]
async fn a_watcher_that_panics_at_any_event_ends_the_run_and_nothing_else() {
    let log = Log::default();
    for at in 0.. {
        let model = ScriptedProvider::new([
            reply().text("Look.").call("look", json!({})).call("write", json!({})),
            reply().text("Done."),
        ]);
        let tools =
            [tool("look", READ, &log, Work::Steps(0)), tool("write", WRITE, &log, Work::Steps(0))];
        let mut chat = Agent::builder(model).tools(tools).build().expect("an agent").chat();
        let mut seen = 0;
        let run = chat.send("Go.").on_event(|_| {
            seen += 1;
            assert!(seen <= at, "the screen fell");
        });
        let ended = run.await;
        let whole = seen == at;
        chat.transcript().sendable().unwrap_or_else(|err| panic!("{at}: {err}"));
        match ended {
            Err(stopped) => {
                assert_eq!(stopped.error().expect("why").kind(), ErrorKind::Panicked, "{at}");
                assert_eq!(seen, at + 1, "{at}: it is not called again");
            }
            // Nothing is left to be stopped when the last events are shown.
            Ok(_) => assert!(at > 8, "{at}"),
        }
        if whole {
            return;
        }
    }
}

#[tokio::test]
async fn no_panic_leaves_the_drop_of_a_run() {
    let model = ScriptedProvider::new([reply().call("act", json!({}))]);
    let act = Tool::new("act", "Falls.", schema(), WRITE, |_, _| Box::pin(Falls));
    let mut chat = Agent::builder(model).tools([act]).build().expect("an agent").chat();
    let mut run = chat.send("Go.").on_event(|event| {
        assert!(!matches!(event, Event::ToolResult { .. }), "told while it is dropped");
    });
    run = run.tool_time(std::time::Duration::from_secs(9));
    let mut run = run.into_future();
    for _ in 0..20 {
        assert!((&mut run).now_or_never().is_none(), "the tool never ends");
    }
    drop(run);
    let last = chat.transcript().messages().last().expect("results").clone();
    assert_eq!(last.results().next().expect("a result").outcome(), CallOutcome::InDoubt);
}

/// A run whose time is limited needs a clock. Without one it says so, and nothing is sent.
#[test]
fn a_runtime_without_a_timer_is_an_error() {
    let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build().unwrap();
    let mut chat = agent.chat();
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let stopped = bare.block_on(async { chat.send("Hello.").await }).unwrap_err();
    let error = stopped.error().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains("`enable_time()`"), "{error}");
    assert!(chat.transcript().messages().is_empty(), "nothing was said");

    let whole = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(whole.block_on(async { chat.send("Hello.").await }).unwrap().text(), "Hello.");
}
