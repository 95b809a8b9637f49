//! How long a call may take, how often it is tried, how much it may say, and what is told of a
//! call that was stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Message, SideEffects, Tool, ToolCall, ToolContent,
    ToolContext, ToolError, ToolLimits, ToolRegistry, ToolResult,
    testing::{ScriptedProvider, reply},
    tool::ToolFuture,
};
use serde_json::json;
use tokio::time::Instant;

use crate::probe::{MUTATE, READ, WRITE};

fn made(
    effects: SideEffects,
    run: impl Fn(ToolContext) -> ToolFuture + Send + Sync + 'static,
) -> Tool {
    let schema = json!({"type": "object", "properties": {}});
    Tool::new("work", "Works.", schema, effects, move |context, _| run(context))
}

async fn call(tool: Tool, limits: ToolLimits) -> ToolResult {
    let registry = ToolRegistry::new([tool]).expect("a registry").with_limits(limits);
    registry.dispatch(&ToolCall::new("call_1", "work", "{}"), &ToolContext::new("call_1")).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_stopped_and_told_truly() {
    let table = [
        (READ, CallOutcome::StoppedReading, "nothing has changed"),
        (WRITE, CallOutcome::InDoubt, "may have partly run"),
    ];
    for (effects, outcome, words) in table {
        let told_to_stop = CancellationToken::new();
        let told = told_to_stop.clone();
        let slow = made(effects, move |context| {
            let told = told.clone();
            Box::pin(async move {
                context.on_stop(|| "half of it".into());
                context.cancellation().cancelled().await;
                told.cancel();
                std::future::pending().await
            })
        });
        let begun = Instant::now();
        let result = call(slow, ToolLimits::default().time(Duration::from_secs(5))).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(5100), "the limit, and time to stop");
        assert!(told_to_stop.is_cancelled());
        assert_eq!(result.outcome(), outcome);
        let text = result.to_text();
        assert!(text.contains(words) && text.ends_with("half of it"), "{text}");
    }
    let begun = Instant::now();
    call(made(READ, |_| Box::pin(std::future::pending())), ToolLimits::default()).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(60_100), "60 s unless set");
}

/// A tool that fails so many times for a passing reason, then succeeds.
fn flaky(effects: SideEffects, failures: u32) -> (Tool, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let tool = made(effects, move |_| {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if run < failures { Err(ToolError::transient("busy")) } else { Ok("done".into()) }
        })
    });
    (tool, runs)
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_repeated_is_tried_again() {
    let (tool, runs) = flaky(READ, 2);
    let begun = Instant::now();
    let result = call(tool, ToolLimits::default()).await;
    assert_eq!((result.outcome(), runs.load(Ordering::SeqCst)), (CallOutcome::Succeeded, 3));
    assert_eq!(begun.elapsed(), Duration::from_millis(200 + 400));

    let (tool, runs) = flaky(READ, 9);
    let result = call(tool, ToolLimits::default()).await;
    assert_eq!(
        (result.outcome(), runs.load(Ordering::SeqCst)),
        (CallOutcome::Failed, 3),
        "bounded"
    );
    assert_eq!(result.to_text(), "busy");

    for effects in [WRITE, MUTATE] {
        let (tool, runs) = flaky(effects, 9);
        call(tool, ToolLimits::default()).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{effects}");
    }
    let lasting = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&lasting);
    let fails = made(READ, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(ToolError::new("no such file")) })
    });
    call(fails, ToolLimits::default()).await;
    assert_eq!(lasting.load(Ordering::SeqCst), 1, "a failure that lasts is not tried again");
}

#[tokio::test]
async fn output_over_the_limit_is_cut_in_the_middle() {
    let big = made(READ, |_| {
        let text = format!("begin{}end", "ä".repeat(100_000));
        let picture = ToolContent::Image { mime: "image/png".into(), data: vec![7; 200_000] };
        Box::pin(async move { Ok(vec![ToolContent::Text(text), "small".into(), picture].into()) })
    });
    let result = call(big.clone(), ToolLimits::default()).await;
    let [ToolContent::Text(cut), ToolContent::Text(small), ToolContent::Image { data, .. }] =
        result.content()
    else {
        panic!("{result:?}")
    };
    assert!(cut.len() < 65 * 1024 && cut.len() > 63 * 1024, "{}", cut.len());
    assert!(cut.starts_with("beginä") && cut.ends_with("äend"));
    assert!(cut.contains(" of 200008 bytes were cut here ..]"), "it says how much");
    assert_eq!((small.as_str(), data.len()), ("small", 200_000));

    let folder = tempfile::tempdir().expect("a folder");
    let limits = ToolLimits::default().overflow_folder(folder.path());
    let result = call(big, limits).await;
    let text = result.to_text();
    let path = text.split("the whole is in ").nth(1).and_then(|rest| rest.split(" ..]").next());
    let whole = std::fs::read_to_string(path.expect("a path")).expect("the file");
    assert_eq!(whole.len(), 200_008);
}

#[tokio::test]
async fn output_within_the_limit_is_not_touched() {
    let json = json!({"a": [1, 2, 3]});
    let kept = json.clone();
    let tool = made(READ, move |_| {
        let json = kept.clone();
        Box::pin(async move { Ok(ToolContent::Json(json).into()) })
    });
    let result = call(tool, ToolLimits::default()).await;
    assert_eq!(result.content(), [ToolContent::Json(json)]);
}

#[tokio::test]
async fn the_idempotency_key_is_the_same_for_every_try_and_no_other_call() {
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let tool = made(READ, move |context| {
        let mut seen = seen.lock().expect("unpoisoned");
        seen.push(context.idempotency_key().to_owned());
        let first = seen.len() == 1;
        Box::pin(async move {
            if first { Err(ToolError::transient("busy")) } else { Ok("done".into()) }
        })
    });
    let model = ScriptedProvider::new([
        reply().call_with_id("a", "work", json!({})),
        reply().call_with_id("a", "work", json!({})),
        reply().text("Done."),
    ]);
    let limits = ToolLimits::default().backoff(Duration::ZERO);
    let agent = Agent::builder(model).tools([tool]).tool_limits(limits);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let keys = keys.lock().expect("unpoisoned");
    let [first, again, other] = keys.as_slice() else { panic!("{keys:?}") };
    assert_eq!(first, again);
    assert_ne!(first, other, "the same id in another turn is another call");
}

#[tokio::test]
async fn what_a_stopped_tool_had_put_out_is_told() {
    let token = CancellationToken::new();
    let stop = token.clone();
    let tool = made(WRITE, move |context| {
        let stop = stop.clone();
        Box::pin(async move {
            context.on_stop(|| "line 1\nline 2\n".into());
            stop.cancel();
            std::future::pending().await
        })
    });
    let model = ScriptedProvider::new([reply().call("work", json!({}))]);
    let agent = Agent::builder(model).tools([tool]).build().expect("an agent");
    let stopped = agent.run(Message::user("Go.")).cancel_with(token).await.expect_err("stopped");
    let last = stopped.transcript().messages().last().expect("results");
    let text = last.results().next().expect("a result").to_text();
    assert!(text.contains("may have partly run"), "{text}");
    assert!(text.ends_with("Its output until then:\nline 1\nline 2\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_run_can_set_a_limit_for_all_its_calls() {
    let slow = made(READ, |_| Box::pin(std::future::pending()));
    let slow = slow.with_time_limit(Duration::from_secs(40));
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("work", json!({})),
        Some(_) => reply().text("Done."),
    });
    let agent = Agent::builder(model).tools([slow]).build().expect("an agent");
    for (limit, expected) in [(None, 40_100), (Some(2), 2_100), (Some(90), 40_100)] {
        let run = agent.run("Go.");
        let run = match limit {
            Some(seconds) => run.tool_time(Duration::from_secs(seconds)),
            None => run,
        };
        let begun = Instant::now();
        run.await.expect("an answer");
        assert_eq!(begun.elapsed(), Duration::from_millis(expected), "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_when_it_stops_by_itself_is_told() {
    let tool = made(WRITE, |context| {
        Box::pin(async move {
            context.cancellation().cancelled().await;
            Err(ToolError::new("wrote 3 of 5"))
        })
    });
    let result = call(tool, ToolLimits::default().time(Duration::from_secs(5))).await;
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert!(result.to_text().ends_with("wrote 3 of 5"), "{}", result.to_text());
}

#[tokio::test]
async fn the_id_of_a_call_cannot_lead_out_of_the_folder() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("inner");
    std::fs::create_dir(&folder).expect("a folder in it");
    let tool = made(READ, |_| Box::pin(async { Ok("x".repeat(100).into()) }));
    let limits = ToolLimits::default().output(10).overflow_folder(&folder);
    let registry = ToolRegistry::new([tool]).expect("a registry").with_limits(limits);
    let call = ToolCall::new("../../up", "work", "{}");
    registry.dispatch(&call, &ToolContext::new("../../up")).await;
    let inside = |folder| std::fs::read_dir(folder).expect("the folder").count();
    assert_eq!((inside(&folder), inside(&outer.path().to_owned())), (1, 1));
}
