//! How long a call may take, how often it is tried, how long its result may be, and what is
//! reported of a stopped call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Media, Message, SideEffects, Tool, ToolCall,
    ToolContent, ToolContext, ToolError, ToolLimits, ToolRegistry, ToolResult,
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

#[tokio::test(start_paused = true)]
async fn each_further_try_is_reported_with_its_cause() {
    let (tool, _) = flaky(READ, 2);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watch = Arc::clone(&seen);
    let context = ToolContext::new("call_1")
        .with_watch(move |report| watch.lock().expect("unpoisoned").push(report.to_owned()));
    let registry = ToolRegistry::new([tool]).expect("a registry");
    registry.dispatch(&ToolCall::new("call_1", "work", "{}"), &context).await;
    let told = ["busy; trying again (2 of 3)", "busy; trying again (3 of 3)"];
    assert_eq!(*seen.lock().expect("unpoisoned"), told);
}

#[tokio::test]
async fn output_over_the_limit_is_cut_in_the_middle() {
    let big = made(READ, |_| {
        let text = format!("begin{}end", "ä".repeat(100_000));
        let picture = ToolContent::Image(Media::from_bytes("image/png", vec![7; 200_000]));
        Box::pin(async move { Ok(vec![ToolContent::Text(text), "small".into(), picture].into()) })
    });
    let result = call(big.clone(), ToolLimits::default()).await;
    let [ToolContent::Text(cut), ToolContent::Text(small), ToolContent::Image(picture)] =
        result.content()
    else {
        panic!("{result:?}")
    };
    assert!(cut.len() < 65 * 1024 && cut.len() > 63 * 1024, "{}", cut.len());
    assert!(cut.starts_with("beginä") && cut.ends_with("äend"));
    assert!(cut.contains(" of 200008 bytes were cut here; checksum "), "it says how much");
    assert_eq!((small.as_str(), picture.size()), ("small", Some(200_000)));
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
    let keys = Arc::new(Mutex::new(Vec::new()));
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

#[tokio::test]
async fn the_limit_of_a_call_is_told_as_it_was_set() {
    for (limit, told) in [(20, "longer than 20ms"), (1_001, "longer than 1.001s")] {
        let slow = made(READ, |_| Box::pin(std::future::pending()));
        let slow = slow.with_time_limit(Duration::from_millis(limit));
        let model = ScriptedProvider::new([reply().call("work", json!({})), reply().text("Done.")]);
        let agent = Agent::builder(model.clone()).tools([slow]).build().expect("an agent");
        agent.run("Go.").await.expect("an answer");
        let text = model.requests().last().expect("a request").last_text();
        assert!(text.contains(told), "{text}");
    }
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

/// What a limit leaves of a result, with the notes of what was cut.
#[track_caller]
fn within(what: &str, result: &ToolResult, limit: usize) {
    let text = result.to_text();
    assert!(text.len() <= limit + 600, "{what}: {} bytes", text.len());
    assert!(result.content().len() < 10, "{what}: {} parts", result.content().len());
}

/// Takes two numbers.
#[harness::tool(side_effects = "none")]
fn add(
    /** First */
    a: i64,
    /** Second */
    b: i64,
) -> i64 {
    a + b
}

/// Everything that a model reads is within the limit: not only what a tool hands over.
#[tokio::test(start_paused = true)]
async fn whatever_answers_a_call_is_within_the_limit() {
    const LIMIT: usize = 4096;
    let huge = || "x".repeat(2_000_000);
    let many = || (0..100_000).map(|at| format!("`a{at}`: is wrong")).collect::<Vec<_>>();
    let tools: Vec<(&str, Tool)> = vec![
        ("text", made(READ, move |_| Box::pin(async move { Ok(huge().into()) }))),
        (
            "value",
            made(READ, move |_| {
                Box::pin(async move { Ok(ToolContent::Json(json!([huge()])).into()) })
            }),
        ),
        (
            "many parts",
            made(READ, |_| {
                let parts = vec![ToolContent::Text("x".into()); 300_000];
                Box::pin(async move { Ok(parts.into()) })
            }),
        ),
        ("error", made(READ, move |_| Box::pin(async move { Err(ToolError::new(huge())) }))),
        (
            "many faults",
            made(READ, move |_| Box::pin(async move { Err(ToolError::BadArguments(many())) })),
        ),
        (
            "a long fault",
            made(READ, move |_| {
                Box::pin(async move { Err(ToolError::BadArguments(vec![huge()])) })
            }),
        ),
        ("panic", made(READ, move |_| Box::pin(async move { panic!("{}", huge()) }))),
        (
            "output so far",
            made(WRITE, move |context| {
                context.on_stop(huge);
                Box::pin(std::future::pending())
            }),
        ),
        (
            "what it says when it stops",
            made(WRITE, move |context| {
                Box::pin(async move {
                    context.cancellation().cancelled().await;
                    Err(ToolError::new(huge()))
                })
            }),
        ),
    ];
    let limits = || ToolLimits::default().output(LIMIT);
    for (what, tool) in tools {
        let result = call(tool, limits()).await;
        within(what, &result, LIMIT);
        let told = result.to_text();
        let is_cut = told.contains("were cut here") || told.contains("more");
        assert!(is_cut, "{what} says that there was more: {told}");
    }

    let tools = ToolRegistry::new([add::TOOL.tool()]).expect("a registry").with_limits(limits());
    let dispatch = async |name: &str, arguments: String| {
        let call = ToolCall::new("call_1", name, arguments);
        tools.dispatch(&call, &ToolContext::new("call_1")).await
    };
    let unknown = dispatch(&huge(), "{}".into()).await;
    within("an unknown name", &unknown, LIMIT);
    assert!(unknown.to_text().ends_with("the tools are: add"), "{}", unknown.to_text());

    let broken = format!("{{\"a\": [{}1 2], \"b\": \"{}\"}}", "1, ".repeat(500_000), huge());
    let broken = dispatch("add", broken).await;
    within("broken arguments", &broken, LIMIT);
    let text = broken.to_text();
    assert!(text.contains("1 2], \"b\": \"xxx"), "what stands around the fault is shown: {text}");
    assert!(text.contains("bytes in all"), "{text}");

    let named = format!("{{\"a\": 1, \"b\": 2, \"{}\": 3}}", huge());
    within("an argument's name", &dispatch("add", named).await, LIMIT);
    let names: Vec<String> = (0..20_000).map(|at| format!("\"c{at}\": 1")).collect();
    let result = dispatch("add", format!("{{{}}}", names.join(","))).await;
    within("many arguments", &result, LIMIT);
    assert!(result.to_text().contains("more"), "{}", result.to_text());
    let typed = format!("{{\"a\": \"{}\", \"b\": 2}}", huge());
    within("an argument of another type", &dispatch("add", typed).await, LIMIT);
}

/// The same for what answers a call without running it, and for what ends a run.
#[tokio::test]
async fn denials_and_stops_are_within_the_limit() {
    const LIMIT: usize = 4096;
    let huge = || "x".repeat(2_000_000);
    let results = |transcript: &harness::Transcript| -> Vec<ToolResult> {
        let messages = transcript.messages();
        messages.iter().flat_map(|message| message.results()).cloned().collect()
    };
    let limits = || ToolLimits::default().output(LIMIT);

    let model = ScriptedProvider::new([reply().call("work", json!({})), reply().text("Done.")]);
    let tool = made(READ, |_| Box::pin(async { Ok("done".into()) }));
    let permissions = harness::Permissions::default().deny("work", huge());
    let agent = Agent::builder(model).tools([tool]).tool_limits(limits()).permissions(permissions);
    let reply_ = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let denied = results(reply_.transcript());
    assert_eq!(denied[0].outcome(), CallOutcome::Denied);
    within("a denial", &denied[0], LIMIT);
    assert!(denied[0].to_text().contains("were cut here"));

    // Stopped by the program: one tool never hears of it, one fails because of it.
    for hears in [false, true] {
        let token = CancellationToken::new();
        let stop = token.clone();
        let tool = made(WRITE, move |context| {
            let stop = stop.clone();
            Box::pin(async move {
                context.on_stop(move || "x".repeat(2_000_000));
                stop.cancel();
                if !hears {
                    std::future::pending::<()>().await;
                }
                context.cancellation().cancelled().await;
                // The run hears of it first.
                tokio::task::yield_now().await;
                Err(ToolError::new("x".repeat(2_000_000)))
            })
        });
        let model = ScriptedProvider::new([reply().call("work", json!({}))]);
        let agent = Agent::builder(model).tools([tool]).tool_limits(limits()).build();
        let run = agent.expect("an agent").run("Go.").cancel_with(token).await;
        let stopped = results(run.expect_err("stopped").transcript());
        assert_eq!(stopped[0].outcome(), CallOutcome::InDoubt);
        within("a stop", &stopped[0], LIMIT);
        assert!(stopped[0].to_text().contains("were cut here"), "{hears}");
    }
}

/// `unwrap` on a stopped run prints it: not all that the model has said.
#[tokio::test]
async fn a_stopped_run_that_is_printed_is_short() {
    let model = ScriptedProvider::new([reply().text("x".repeat(1_000_000)).cut()]);
    let agent = Agent::builder(model).build().expect("an agent");
    let stopped = agent.run("Go.").await.expect_err("it breaks off");
    let printed = format!("{stopped:?}");
    assert!(printed.len() < 3_000 && printed.contains("xxx… (10000"), "{} bytes", printed.len());
}
