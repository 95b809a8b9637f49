//! Calls that only read start while the model is still answering; other calls do not.

use futures_util::stream;
use harness::{
    Agent, CallOutcome, Event, Outcome, Permissions, Provider, StopReason, StreamEvent, Tool,
    policy::{ApprovalRequest, RetryPolicy, RetryProvider},
    provider::{EventStream, Request},
    testing::{Gate, ScriptedProvider, ScriptedReply, outline, reply},
};
use serde_json::json;

use crate::probe::{Log, READ, WRITE, Work, tool};

/// The model makes calls, is held at a gate in the middle of its turn, and goes on with words.
/// Gives what the tools had done when the model was held, and at the end.
async fn run(
    said: ScriptedReply,
    hold: &Gate,
    build: impl Fn(harness::agent::AgentBuilder) -> harness::agent::AgentBuilder,
) -> (Vec<String>, Vec<String>, String) {
    let log = Log::default();
    let model = ScriptedProvider::new([said, reply().text("Done.")]);
    let tools =
        [tool("look", READ, &log, Work::Steps(1)), tool("write", WRITE, &log, Work::Steps(1))];
    let agent = build(Agent::builder(model).tools(tools)).build().expect("an agent");
    let mut chat = agent.chat();
    let watched = log.clone();
    let test = async {
        hold.reached().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let held = watched.lines();
        hold.open();
        held
    };
    let (_, held) = tokio::join!(chat.send("Go.").into_future(), test);
    (held, log.lines(), outline(chat.transcript().messages()))
}

#[tokio::test]
async fn a_read_runs_while_the_model_speaks_and_its_result_is_used() {
    let hold = Gate::new();
    let said = reply().call("look", json!({})).wait_for(&hold).text("And so on.");
    let (held, all, told) = run(said, &hold, |agent| agent).await;
    assert_eq!(held, ["begin look", "end look"]);
    assert_eq!(all, held, "it is not run again");
    assert!(told.contains("tool: succeeded: look is done"), "{told}");
}

#[tokio::test]
async fn it_starts_as_soon_as_its_arguments_are_whole_without_an_end_mark() {
    let hold = Gate::new();
    let said =
        reply().begin_call("a", "look").arguments("{").arguments(" }").wait_for(&hold).end_call();
    let (held, all, _) = run(said, &hold, |agent| agent).await;
    assert_eq!(held, ["begin look", "end look"]);
    assert_eq!(all, held);
}

#[tokio::test]
async fn what_does_not_only_read_waits_for_the_end_of_the_turn() {
    let hold = Gate::new();
    let said = reply().call("write", json!({})).wait_for(&hold).text("Well.");
    let (held, all, _) = run(said, &hold, |agent| agent).await;
    assert_eq!(held, [""; 0]);
    assert_eq!(all, ["begin write", "end write"]);
}

#[tokio::test]
async fn a_read_after_a_write_waits_for_the_write() {
    let hold = Gate::new();
    let said =
        reply().call("write", json!({})).call("look", json!({})).wait_for(&hold).text("Well.");
    let (held, all, _) = run(said, &hold, |agent| agent).await;
    assert_eq!(held, [""; 0]);
    assert_eq!(all, ["begin write", "end write", "begin look", "end look"]);
}

#[tokio::test]
async fn what_needs_approval_or_is_denied_waits() {
    for permissions in
        [Permissions::default().ask("look"), Permissions::default().deny("look", "no")]
    {
        let hold = Gate::new();
        let said = reply().call("look", json!({})).wait_for(&hold).text("Well.");
        let (held, all, _) = run(said, &hold, |agent| agent.permissions(permissions.clone())).await;
        assert_eq!((held.len(), all.len()), (0, 0));
    }
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let hold = Gate::new();
    let said = reply().call("look", json!({})).wait_for(&hold).text("Well.");
    let (held, all, _) = run(said, &hold, |agent| agent.early_start(false)).await;
    assert_eq!(held, [""; 0]);
    assert_eq!(all, ["begin look", "end look"]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_start_nothing() {
    let hold = Gate::new();
    let said = reply().call_text("look", "[1]").wait_for(&hold).text("Well.");
    let (held, all, told) = run(said, &hold, |agent| agent).await;
    assert_eq!((held.len(), all.len()), (0, 0));
    assert!(told.contains("must be a JSON object"), "{told}");
}

#[tokio::test]
async fn arguments_that_go_on_after_a_whole_value_are_run_as_sealed() {
    let hold = Gate::new();
    // It looks whole, and then more comes: the first start is thrown away.
    let said = reply()
        .begin_call("a", "look")
        .arguments("{ }")
        .wait_for(&hold)
        .arguments("garbage")
        .end_call();
    let (held, all, told) = run(said, &hold, |agent| agent).await;
    assert_eq!(held, ["begin look", "end look"]);
    assert_eq!(all, held);
    assert!(told.contains("failed: the arguments are not valid JSON"), "{told}");
}

#[tokio::test]
async fn of_a_turn_that_may_not_run_only_the_truth_is_kept() {
    let refused = |hold: &Gate| {
        reply().call("look", json!({})).wait_for(hold).text("No.").stop(StopReason::Refused)
    };
    let truncated = |hold: &Gate| {
        reply().call("look", json!({})).wait_for(hold).text("So f").stop(StopReason::Truncated)
    };
    let failed = |hold: &Gate| reply().call("look", json!({})).wait_for(hold).overloaded();
    for (name, said, kept) in [
        ("refused", &refused as &dyn Fn(&Gate) -> ScriptedReply, false),
        ("truncated", &truncated, true),
        ("failed", &failed, true),
    ] {
        let hold = Gate::new();
        let (held, all, told) = run(said(&hold), &hold, |agent| agent).await;
        assert_eq!(held, ["begin look", "end look"], "{name}");
        assert_eq!(all, held, "{name}: nothing runs after it");
        assert_eq!(told.contains("tool: succeeded: look is done"), kept, "{name}: {told}");
    }
}

#[tokio::test]
async fn a_read_that_was_stopped_is_told_so() {
    let (log, hold) = (Log::default(), Gate::new());
    let never = Gate::new();
    let model =
        ScriptedProvider::new([reply().call("look", json!({})).wait_for(&hold).overloaded()]);
    let look = tool("look", READ, &log, Work::Gate(never.clone()));
    let mut chat = Agent::builder(model).tools([look]).build().expect("an agent").chat();
    let test = async {
        never.reached().await;
        hold.open();
    };
    let (stopped, ()) = tokio::join!(chat.send("Go.").into_future(), test);
    assert_eq!(stopped.expect_err("no answer").outcome(), Outcome::Failed);
    let last = chat.transcript().messages().last().expect("results");
    let result = last.results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::StoppedReading);
}

/// Asks for one call, and ends its arguments again and again.
struct Stutters;

impl Provider for Stutters {
    fn name(&self) -> &str {
        "stutters"
    }

    fn model(&self) -> &str {
        "m"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let piece = |json: &str| StreamEvent::ToolCallDelta { block: 0, json: json.to_owned() };
        let mut events = Vec::new();
        let mut stop = StopReason::Complete;
        if request.messages().len() == 1 {
            let (id, name) = ("a".to_owned(), "write".to_owned());
            events.push(StreamEvent::ToolCallStart { block: 0, id, name });
            events.push(piece(&format!("{{\"text\":\"{}\"}}", "a".repeat(3 << 20))));
            events.extend((0..100_000).map(|_| piece("{}")));
            events.push(StreamEvent::ToolCallEnd { block: 0 });
            stop = StopReason::ToolCalls;
        }
        events.push(StreamEvent::Completed { stop, usage: Box::default() });
        Box::pin(stream::iter(events.into_iter().map(Ok)))
    }
}

/// It takes many minutes if the whole of the arguments is read for each of these pieces.
#[tokio::test]
async fn pieces_that_say_nothing_do_not_ask_again_whether_a_call_may_start() {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let write = Tool::new("write", "Writes.", schema, WRITE, |_, arguments| {
        Box::pin(async move { Ok(format!("{} bytes", arguments["text"].to_string().len()).into()) })
    });
    let agent = Agent::builder(Stutters).tools([write]).build().unwrap();
    let mut chat = agent.chat();
    chat.send("Go.").await.unwrap();
    let told = outline(chat.transcript().messages());
    assert!(told.contains("tool: succeeded: 3145730 bytes"), "{:.200}", told);
}

/// A call that started early is not part of the answer in the end, whose call of the same id does not run.
#[tokio::test(start_paused = true)]
async fn of_a_call_that_was_dropped_no_result_is_reported() {
    let looks = || reply().begin_call("a", "look").arguments("{ }");
    let goes_on = |hold: &Gate| {
        let json = r#"{"another": 1}"#.to_owned();
        let other = StreamEvent::ToolCallArguments { block: 0, json };
        vec![looks().wait_for(hold).event(other).end_call().stop(StopReason::Truncated)]
    };
    let begins_again = |hold: &Gate| {
        let again = reply().call_with_id("a", "write", json!({}));
        vec![looks().wait_for(hold).overloaded(), again.stop(StopReason::Truncated)]
    };
    for script in [&goes_on as &dyn Fn(&Gate) -> Vec<ScriptedReply>, &begins_again] {
        let (log, hold) = (Log::default(), Gate::new());
        let policy = RetryPolicy { after_output: true, ..RetryPolicy::default() };
        let model = RetryProvider::new(ScriptedProvider::new(script(&hold)), policy);
        let tools =
            [tool("look", READ, &log, Work::Steps(1)), tool("write", WRITE, &log, Work::Steps(1))];
        let agent = Agent::builder(model).tools(tools).build().expect("an agent");
        let (mut chat, mut seen) = (agent.chat(), Vec::new());
        let run = chat.send("Go.").on_event(|event| match event {
            Event::ToolCall(_) => seen.push("begun"),
            Event::ToolDropped { .. } => seen.push("dropped"),
            Event::ToolResult { result, .. } => seen.push(match result.outcome() {
                CallOutcome::NotStarted => "not started",
                _ => "ended",
            }),
            _ => {}
        });
        let test = async {
            hold.reached().await;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            hold.open();
        };
        let (stopped, ()) = tokio::join!(run.into_future(), test);
        assert_eq!(stopped.expect_err("it is cut off").outcome(), Outcome::Truncated);
        assert_eq!(log.lines(), ["begin look", "end look"]);
        assert_eq!(seen, ["begun", "dropped", "not started"]);
        let last = chat.transcript().messages().last().expect("results");
        let result = last.results().next().expect("a result");
        assert_eq!(result.outcome(), CallOutcome::NotStarted);
    }
}

#[tokio::test]
async fn a_call_that_started_early_goes_on_while_a_person_decides_about_another() {
    let (log, hold, work) = (Log::default(), Gate::new(), Gate::new());
    let said = reply().call("look", json!({})).wait_for(&hold).call("write", json!({}));
    let tools = [
        tool("look", READ, &log, Work::Gate(work.clone())),
        tool("write", WRITE, &log, Work::Steps(1)),
    ];
    let (watched, opened) = (log.clone(), work.clone());
    let person = move |question: ApprovalRequest| {
        let (watched, opened) = (watched.clone(), opened.clone());
        async move {
            opened.open();
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            match watched.has("end look") {
                true => question.yes(),
                false => question.no("the other call stands still"),
            }
        }
    };
    let agent = Agent::builder(ScriptedProvider::new([said, reply().text("Done.")]))
        .tools(tools)
        .permissions(Permissions::default().ask("write"))
        .approver(person)
        .build()
        .expect("an agent");
    let test = async {
        work.reached().await;
        hold.open();
    };
    let (reply, ()) = tokio::join!(agent.run("Go.").into_future(), test);
    reply.expect("an answer");
    assert_eq!(log.lines(), ["begin look", "end look", "begin write", "end write"]);
}
