//! Servers that are made to do harm: one call, at most one run, an end in time, no process left, no variable
//! given away, and the agent goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future::join_all, stream};
use harness::{
    Agent, CallOutcome, Permissions, SideEffect, SideEffects, ToolContext, ToolLimits,
    mcp::{McpElicitationAnswer, McpServer},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use super::{Scripted, call, text};

/// How long a call may take that only the clock ends, and one that the server ends on a machine that is slow.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(120);

/// What one call that may take this long comes to within an agent that goes on after it.
async fn one_call(way: &str, time: Duration) -> (CallOutcome, String) {
    let scripted = Scripted::new();
    let limits = ToolLimits::default().time(time);
    let server =
        scripted.server(way).on_elicitation(|_| Box::pin(async { McpElicitationAnswer::Decline }));
    let server = server.connect().await.unwrap_or_else(|err| panic!("{way}: {err}"));
    let model = ScriptedProvider::new([
        reply().call("it__run", json!({"a": 1})),
        reply().text("Going on."),
    ]);
    let agent = Agent::builder(model)
        .tools(server.tools())
        .tool_limits(limits)
        .permissions(Permissions::default().allow("it__run"))
        .build()
        .unwrap_or_else(|err| panic!("{way}: {err}"));
    let told = agent.run("Run it.").await.unwrap_or_else(|err| panic!("{way}: {err}"));
    assert_eq!(told.text(), "Going on.", "{way}");
    let messages = told.transcript().messages();
    let results = messages.iter().flat_map(|message| message.results());
    let results: Vec<(CallOutcome, String)> =
        results.map(|result| (result.outcome(), result.to_text())).collect();
    assert_eq!(results.len(), 1, "{way}");
    assert!(scripted.count("call") <= 1, "{way}: {}", scripted.log());
    server.close().await;
    scripted.until_none_lives().await;
    assert!(!scripted.log().contains("leaked"), "{way}: {}", scripted.log());
    results.into_iter().next().expect("a result")
}

#[tokio::test]
async fn whatever_becomes_of_a_call_it_is_sent_once_and_the_agent_goes_on() {
    let ways = [
        ("closes-input", CallOutcome::InDoubt, "it"),
        ("closes-output-at-call", CallOutcome::InDoubt, "closed"),
        ("closes-both", CallOutcome::InDoubt, "closed"),
        ("child-holds-pipes", CallOutcome::InDoubt, "closed"),
        ("many-children", CallOutcome::Succeeded, "done"),
        ("exits-well", CallOutcome::InDoubt, "closed"),
        ("vast-line", CallOutcome::Succeeded, "after it"),
        ("vast-line-without-end", CallOutcome::InDoubt, ""),
        ("id-as-text", CallOutcome::Succeeded, "as text"),
        ("error-without-id", CallOutcome::InDoubt, "an error without an id: no (code -1)"),
        ("batch", CallOutcome::Succeeded, "in a batch"),
        ("deep", CallOutcome::InDoubt, ""),
        ("many-parts", CallOutcome::Succeeded, "more parts"),
        ("no-utf8", CallOutcome::Succeeded, "\u{fffd}"),
        ("two-ends-of-line", CallOutcome::Succeeded, "done"),
        ("byte-by-byte", CallOutcome::Succeeded, "done"),
        ("progress-without-end", CallOutcome::InDoubt, ""),
        ("progress-back", CallOutcome::Succeeded, "done"),
        ("progress-large", CallOutcome::Succeeded, "done"),
        ("flood-of-changes", CallOutcome::Succeeded, "done"),
        ("flood-of-unknown", CallOutcome::Succeeded, "done"),
        ("flood-of-pings", CallOutcome::Succeeded, "1000 answers"),
        ("flood-of-questions", CallOutcome::Succeeded, "300 answers, 0 given"),
        ("asks-oddly", CallOutcome::Succeeded, "6 answers"),
        ("asks-and-answers", CallOutcome::Succeeded, "done"),
        ("wants-a-model", CallOutcome::Failed, "has not run the call"),
        ("lists-roots", CallOutcome::Succeeded, "refused"),
        // Which of its answers comes first once there is a question is left to chance.
        ("answers-ahead", CallOutcome::Succeeded, ""),
        ("schemas", CallOutcome::Succeeded, "ran in life 1"),
        ("other-version", CallOutcome::Succeeded, "ran in life 1"),
    ];
    // Some calls end only when their time limit is over, so four run at once.
    let calls = ways.into_iter().map(|(way, outcome, said)| async move {
        let time = if outcome == CallOutcome::InDoubt { SHORT } else { LONG };
        let (found, words) = one_call(way, time).await;
        assert_eq!(found, outcome, "{way}: {words}");
        assert!(words.contains(said), "{way}: {words}");
    });
    stream::iter(calls).buffer_unordered(4).collect::<()>().await;
}

#[tokio::test]
async fn a_server_that_dies_at_any_byte_is_told_as_what_it_is() {
    let whole = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"whole"}]}}"#;
    for at in (0..=whole.len()).step_by(9) {
        let (outcome, _) = one_call(&format!("cuts-call:{at}"), SHORT).await;
        assert_eq!(outcome, CallOutcome::InDoubt, "{at}");
    }
    for way in ["cuts-begin", "cuts-list"] {
        for at in (0..100).step_by(20) {
            let scripted = Scripted::new();
            let server = scripted.server(&format!("{way}:{at}")).connect().await;
            assert!(server.is_err(), "{way} {at}");
            scripted.until_none_lives().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_called_is_no_server() {
    for (way, said) in [
        ("refuses-session", "go away"),
        ("refuses-list", "no list today"),
        ("dies-at-list", "did not list its tools"),
    ] {
        let scripted = Scripted::new();
        let err = scripted.server(way).connect().await.expect_err(way);
        assert!(err.to_string().contains(said), "{way}: {err}");
        assert!(!err.to_string().contains('\u{1b}'), "{way}: {err:?}");
        scripted.until_none_lives().await;
    }
    let scripted = Scripted::new();
    let server = scripted.server("no-tools").connect().await.expect("a server without tools");
    assert!(server.tools().is_empty());
}

#[tokio::test]
async fn a_server_that_has_lost_a_pipe_is_started_again_before_the_next_call() {
    let ways = ["closes-input", "closes-output-at-call", "closes-both", "child-holds-pipes"];
    let each = ways.into_iter().map(|way| async move {
        let scripted = Scripted::new();
        let server = scripted.server(way).connect().await.expect("a server");
        let tool = server.tools().remove(0);
        let lost = tokio::time::timeout(Duration::from_secs(5), call(&tool)).await;
        // A server that has closed its input alone has read the call, and may answer.
        assert!(
            lost.is_ok_and(|lost| lost.is_err_and(|err| err.is_in_doubt()))
                || way == "closes-input",
            "{way}"
        );
        let mut last = String::new();
        for _ in 0..2 {
            last = match tokio::time::timeout(Duration::from_secs(5), call(&tool)).await {
                Ok(Ok(output)) => text(Ok(output)),
                Ok(Err(err)) => err.to_string(),
                Err(_) => "nothing".to_owned(),
            };
        }
        assert!(last.starts_with("ran in life"), "{way}: {last}");
        server.close().await;
        scripted.until_none_lives().await;
    });
    join_all(each).await;
}

#[tokio::test]
async fn names_cannot_be_taken_from_each_other_and_are_shown_without_control_characters() {
    let scripted = Scripted::new();
    let server = scripted.server("names").connect().await.expect("a server");
    let of = server.only(["a.b"]).expect("the tool").remove(0);
    let taken = of.name().strip_prefix("it__").expect("the server's name").to_owned();
    let scripted = Scripted::new();
    let server = scripted.server("names").env("KEY", taken).connect().await.expect("a server");
    for line in server.left_out() {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    for tool in server.tools() {
        assert!(tool.name().len() <= 64 && tool.name().is_ascii(), "{}", tool.name());
    }
    let agent = Agent::builder(ScriptedProvider::new([])).tools(server.tools()).build();
    assert!(agent.is_ok(), "{:?}", agent.err());
}

#[tokio::test]
async fn the_order_of_members_is_no_change_and_other_hints_are_one() {
    let scripted = Scripted::new();
    let server = scripted.server("key-order").connect().await.expect("a server");
    let tool = server.tools().remove(0);
    assert!(call(&tool).await.unwrap_err().is_in_doubt());
    assert_eq!(text(call(&tool).await), "ran in life 2");

    let scripted = Scripted::new();
    let server = scripted.server("hints-change").trust_hints().connect().await.expect("a server");
    let tool = server.tools().remove(0);
    assert_eq!(tool.side_effects(), SideEffects::of(&[SideEffect::Read]));
    assert!(call(&tool).await.unwrap_err().is_in_doubt());
    let changed = call(&tool).await.unwrap_err();
    assert!(changed.to_string().contains("not sent"), "{changed}");
    assert_eq!(scripted.count("call"), 1);
}

#[tokio::test]
async fn a_tool_that_is_described_anew_while_its_server_runs_is_not_called() {
    let scripted = Scripted::new();
    let server = scripted.server("describes-while-it-runs").connect().await.expect("a server");
    let tool = server.tools().remove(0);
    assert_eq!(text(call(&tool).await), "done", "what has begun goes on");
    scripted.until("the word of it", |_| server.has_changed()).await;
    let changed = call(&tool).await.unwrap_err();
    assert!(changed.to_string().contains("describes it differently"), "{changed}");
    assert_eq!(scripted.count("call"), 1);
    assert!(server.has_changed(), "the program has not loaded the tools again");
    let again = server.reload().await.expect("the tools");
    assert_eq!(text(call(&again.tools()[0]).await), "done");
}

#[tokio::test]
async fn a_late_answer_is_not_the_answer_of_the_next_call() {
    let scripted = Scripted::new();
    let server = scripted.server("answers-after-cancel").connect().await.expect("a server");
    let tool = server.tools().remove(0);
    tokio::select! {
        _ = call(&tool) => panic!("it is never answered"),
        () = scripted.until("the call", |it| it.count("call") == 1) => {}
    }
    scripted.until("the cancellation", |it| it.count("cancelled") == 1).await;
    assert_eq!(text(call(&tool).await), "in time");
}

#[tokio::test]
async fn what_a_server_reports_is_bounded_and_rises() {
    let scripted = Scripted::new();
    let server = scripted.server("progress-back").connect().await.expect("a server");
    let context = ToolContext::new("call_1");
    assert_eq!(text(server.tools()[0].call(&context, json!({})).await), "done");
    let log = context.progress_log();
    assert!(log.iter().all(|line| line.len() <= 4096), "{log:?}");
    assert!(log.len() <= 3, "{log:?}");
}

/// A server that is connected with a person who fills everything in and counts how often they are asked.
async fn with_person(
    scripted: &Scripted,
    way: &str,
) -> (McpServer, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let [asked, now, most] = counts.clone();
    let server = scripted.server(way).on_elicitation(move |_| {
        let [asked, now, most] = counts.clone();
        Box::pin(async move {
            asked.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            McpElicitationAnswer::Accept(serde_json::Map::new())
        })
    });
    drop(now);
    (server.connect().await.expect("a server"), asked, most)
}

#[tokio::test]
async fn a_person_is_asked_one_question_at_a_time_and_not_without_end() {
    for way in ["flood-of-questions", "wants-much"] {
        let scripted = Scripted::new();
        let (server, asked, most) = with_person(&scripted, way).await;
        let said = call(&server.tools()[0]).await;
        let (asked, most) = (asked.load(Ordering::SeqCst), most.load(Ordering::SeqCst));
        assert!(asked <= 8 && most <= 1, "{way}: {asked} questions, {most} at once: {said:?}");
    }
}

#[tokio::test]
async fn a_person_is_asked_only_while_a_call_runs() {
    let scripted = Scripted::new();
    let (server, asked, _) = with_person(&scripted, "asks-when-idle").await;
    scripted.until("the answer", |it| it.log().contains("idle ")).await;
    assert!(scripted.log().contains("idle decline"), "{}", scripted.log());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    drop(server);

    let scripted = Scripted::new();
    let server = scripted
        .server("asks-and-answers")
        .on_elicitation(|_| Box::pin(std::future::pending()))
        .connect()
        .await
        .expect("a server");
    assert_eq!(text(call(&server.tools()[0]).await), "done");
    // The call is over, so the question is, too.
    scripted.until("the end of the question", |it| it.log().contains("then ")).await;
    assert!(scripted.log().contains("then cancel"), "{}", scripted.log());
}

#[tokio::test]
async fn a_form_whose_hook_panics_is_put_aside() {
    let scripted = Scripted::new();
    let server = scripted
        .server("asks")
        .on_elicitation(|_| Box::pin(async { panic!("the terminal is gone") }))
        .connect()
        .await
        .expect("a server");
    let said = tokio::time::timeout(Duration::from_secs(5), call(&server.tools()[0])).await;
    assert!(said.is_ok_and(|said| text(said).contains("cancel")));
}

#[tokio::test]
async fn a_call_that_was_asked_about_and_then_lost_is_in_doubt() {
    let scripted = Scripted::new();
    let server = scripted.server("wants-and-dies").connect().await.expect("a server");
    assert!(call(&server.tools()[0]).await.unwrap_err().is_in_doubt());
    assert_eq!(scripted.count("call"), 2);
}

#[tokio::test]
async fn last_words_hold_no_secret_not_even_half_of_one() {
    let scripted = Scripted::new();
    let key = "sk-a-very-long-and-very-secret-key-of-the-test";
    let server = scripted.server("last-words").env("KEY", key).connect().await.expect("a server");
    let lost = call(&server.tools()[0]).await.unwrap_err().to_string();
    assert!(!lost.contains("sk-a-v"), "{lost}");
    assert!(!lost.contains('\u{1b}') && !lost.contains('\u{7}'), "{lost:?}");
}

#[tokio::test]
async fn a_server_that_ignores_signals_ends_too() {
    let scripted = Scripted::new();
    let program = env!("CARGO_BIN_EXE_scripted-mcp-server");
    let log = scripted.path().display().to_string();
    let script = r#"trap '' TERM HUP INT; exec "$0" stays "$1""#;
    let server = McpServer::command("sh", ["-c", script, program, &log]).name("it");
    let server = server.connect().await.expect("a server");
    assert_eq!(text(call(&server.tools()[0]).await), "ran in life 1");
    server.close().await;
    scripted.until_none_lives().await;
}

/// Not a test: a program that has a server and is killed. See the next one.
#[tokio::test]
#[ignore = "started by another test, which kills it"]
async fn has_a_server_and_waits_to_be_killed() {
    let Ok(log) = std::env::var("HARNESS_TEST_LOG") else { return };
    let program = env!("CARGO_BIN_EXE_scripted-mcp-server");
    let script = r#"trap '' TERM HUP INT; exec "$0" stays "$1""#;
    let server = McpServer::command("sh", ["-c", script, program, &log]).name("it");
    let server = server.connect().await.expect("a server");
    let _ = call(&server.tools()[0]).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_ends_with_a_program_that_is_killed_though_it_ignores_all_else() {
    let scripted = Scripted::new();
    let this = std::env::current_exe().expect("this program");
    let mut program = std::process::Command::new(this)
        .args(["--exact", "--ignored", "hostile::has_a_server_and_waits_to_be_killed"])
        .env("HARNESS_TEST_LOG", scripted.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a program");
    scripted.until("the call", |it| it.count("call") == 1).await;
    program.kill().expect("it lives");
    program.wait().expect("its end");
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn a_server_that_died_while_nobody_called_it_is_started_again() {
    let scripted = Scripted::new();
    let server = scripted.server("dies-when-idle").connect().await.expect("a server");
    scripted.until_none_lives().await;
    let tool = server.tools().remove(0);
    // Whether its end was heard of by now is left to chance; if not, the call is in doubt.
    if let Err(lost) = call(&tool).await {
        assert!(lost.is_in_doubt(), "{lost}");
    }
    assert_eq!(text(call(&tool).await), "ran in life 2");
}
