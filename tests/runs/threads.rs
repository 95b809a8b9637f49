//! Synchronous tools whose threads outlive the stop of their calls, the progress of a tool, and
//! that every call that was shown has an end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Event, Message, State, ToolContext, ToolError,
    journal::{Fact, LimitKind, MemoryJournal},
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

use crate::door::Door;
use crate::kept::{entries, recorded};
use crate::probe::{Log, READ, WRITE, Work};

#[derive(Default)]
struct World {
    door: Door,
    log: Log,
}

/// Appends a line, and does not listen to anybody.
#[tool(side_effects = "write")]
fn append(
    /** The line */
    line: String,
    world: State<Arc<World>>,
) -> Result<String, ToolError> {
    world.log.note(format!("begin {line}"));
    world.door.pass();
    world.log.note(format!("end {line}"));
    match line.as_str() {
        "falls" => panic!("the line fell"),
        "fails" => Err(ToolError::new("no room")),
        line => Ok(format!("appended {line}")),
    }
}

fn chat(model: &ScriptedProvider, world: &Arc<World>) -> (Chat, MemoryJournal) {
    let agent = Agent::builder(model.clone()).tools(tools![append]).state(Arc::clone(world));
    recorded(&agent.build().expect("an agent"))
}

/// Stops a run when its tool waits at the door.
async fn stopped_at_the_door(chat: &mut Chat, world: &World) {
    let token = CancellationToken::new();
    let run = chat.send("Go.").cancel_with(token.clone()).into_future();
    let (before, stop) = (world.door.came(), async {
        while world.door.came() == 0 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });
    let (ended, ()) = tokio::join!(run, stop);
    ended.expect_err("stopped");
    assert_eq!(before, 0);
}

fn last_result(chat: &Chat) -> (CallOutcome, String) {
    let last = chat.transcript().messages().iter().flat_map(Message::results).last();
    last.map(|result| (result.outcome(), result.to_text())).expect("a result")
}

/// Waits until the conversation has nothing that still runs.
async fn ended(chat: &Chat) {
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_thread_that_outlives_its_stop_is_told_and_its_call_does_not_begin_again() {
    let call = || reply().call("append", json!({"line": "one"}));
    let spaced = reply().call_text("append", r#"{ "line" : "on\u0065" }"#);
    let model = ScriptedProvider::new([
        call(),
        // The user says more while the thread lives: the model tries again, twice.
        call(),
        spaced,
        reply().text("I wait."),
        reply().text("It is there."),
    ]);
    let world = Arc::new(World::default());
    let (mut chat, journal) = chat(&model, &world);
    stopped_at_the_door(&mut chat, &world).await;
    let (outcome, text) = last_result(&chat);
    assert_eq!(outcome, CallOutcome::StillRunning);
    assert!(text.contains("may still be running") && text.contains("Do not repeat it"), "{text}");
    let [running] = chat.still_running().try_into().expect("one call");
    assert_eq!((running.tool.as_str(), running.call.as_str()), ("append", "call_1"));

    chat.send("And?").await.expect("an answer");
    let (outcome, text) = last_result(&chat);
    assert_eq!(outcome, CallOutcome::NotStarted);
    assert!(text.contains("`call_1` does the same"), "{text}");
    assert_eq!(world.log.lines(), ["begin one"], "it did not begin again");

    world.door.open();
    ended(&chat).await;
    let mut told = Vec::new();
    let run = chat.send("And now?").on_event(|event| {
        if let Event::ToolEnded { tool, result } = event {
            told.push((tool.to_owned(), result.outcome(), result.to_text()));
        }
    });
    run.await.expect("an answer");
    let appended = ("append".to_owned(), CallOutcome::Succeeded, "appended one".to_owned());
    assert_eq!(told, [appended]);
    let asked = model.requests().last().expect("a request").last_text();
    assert!(
        asked.starts_with("And now?")
            && asked.contains("`call_1` of `append`")
            && asked.contains("appended one"),
        "{asked}"
    );
    let ends = entries(&journal).into_iter().filter(|it| matches!(it, Fact::CallEnded { .. }));
    assert_eq!(ends.count(), 1, "it is a fact, once");
    assert_eq!(world.log.lines(), ["begin one", "end one"]);
}

/// Looks something up, and does not listen to anybody.
#[tool(side_effects = "read")]
fn look(
    /** What to look for */
    line: String,
    world: State<Arc<World>>,
) -> String {
    world.door.pass();
    line
}

/// The thread keeps the program from ending, whatever it does. It holds nobody up, and its end is told to nobody.
#[tokio::test]
async fn a_thread_that_only_reads_is_listed_and_holds_nobody_up() {
    let call = || reply().call("look", json!({"line": "one"}));
    let model = ScriptedProvider::new([call(), call(), reply().text("Found.")]);
    let world = Arc::new(World::default());
    let agent = Agent::builder(model.clone()).tools(tools![look]).state(Arc::clone(&world));
    let (mut chat, _) = recorded(&agent.build().expect("an agent"));
    stopped_at_the_door(&mut chat, &world).await;
    let [running] = chat.still_running().try_into().expect("one call");
    assert_eq!((running.tool.as_str(), running.call.as_str()), ("look", "call_1"));
    assert!(running.effects.is_read_only());
    let listed = tool::still_running();
    assert!(listed.iter().any(|it| it.conversation == running.conversation), "{listed:?}");

    let mut ends = 0;
    let run = chat
        .send("And?")
        .on_event(|event| ends += usize::from(matches!(event, Event::ToolEnded { .. })));
    let run = run.into_future();
    let open = async {
        while world.door.came() < 2 {
            tokio::task::yield_now().await;
        }
        world.door.open();
    };
    let (again, ()) = tokio::join!(run, open);
    again.expect("an answer");
    assert_eq!(last_result(&chat), (CallOutcome::Succeeded, "one".to_owned()));
    ended(&chat).await;
    assert_eq!(ends, 0);
}

#[tokio::test]
async fn other_arguments_and_other_conversations_are_not_held_up() {
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().call("append", json!({"line": "two"})),
        reply().text("Done."),
    ]);
    let world = Arc::new(World::default());
    let (mut first, _) = chat(&model, &world);
    stopped_at_the_door(&mut first, &world).await;
    let run = first.send("The other.").into_future();
    let open = async {
        while world.door.came() < 2 {
            tokio::task::yield_now().await;
        }
        world.door.open();
    };
    let (ended_well, ()) = tokio::join!(run, open);
    ended_well.expect("an answer");
    ended(&first).await;
    let mut lines = world.log.lines();
    lines.sort();
    assert_eq!(lines, ["begin one", "begin two", "end one", "end two"]);

    let world = Arc::new(World::default());
    let model = ScriptedProvider::new([reply().call("append", json!({"line": "one"}))]);
    let (mut second, _) = chat(&model, &world);
    stopped_at_the_door(&mut second, &world).await;
    assert!(first.still_running().is_empty());
    assert_eq!(second.still_running().len(), 1);
    assert!(!tool::still_running().is_empty());
    world.door.open();
    ended(&second).await;
}

#[tokio::test]
async fn how_it_ended_is_told_as_it_was() {
    for (line, how, outcome) in [
        ("falls", "the line fell", CallOutcome::InDoubt),
        ("fails", "no room", CallOutcome::Failed),
    ] {
        let model = ScriptedProvider::new([
            reply().call("append", json!({"line": line})),
            reply().text("I see."),
        ]);
        let world = Arc::new(World::default());
        let (mut chat, journal) = chat(&model, &world);
        stopped_at_the_door(&mut chat, &world).await;
        world.door.open();
        ended(&chat).await;
        chat.send("And?").await.expect("an answer");
        let asked = model.requests().last().expect("a request").last_text();
        assert!(asked.contains(how), "{asked}");
        let told = entries(&journal).into_iter().find_map(|entry| match entry {
            Fact::CallEnded { result, .. } => Some(result.outcome()),
            _ => None,
        });
        assert_eq!(told, Some(outcome));
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_call_tells_the_same() {
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().text("I see."),
        reply().text("Good."),
    ]);
    let world = Arc::new(World::default());
    let (mut chat, _) = chat(&model, &world);
    // The clock stands still while a thread for blocking work runs, so it is moved by hand.
    let run = chat.send("Go.").tool_time(Duration::from_secs(5)).into_future();
    let clock = async {
        while world.door.came() == 0 {
            tokio::task::yield_now().await;
        }
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        reply = run => { reply.expect("an answer"); }
        () = clock => {}
    }
    let (outcome, text) = last_result(&chat);
    assert_eq!(outcome, CallOutcome::StillRunning);
    assert!(text.contains("was told to stop") && text.contains("may still be running"), "{text}");
    world.door.open();
    ended(&chat).await;
    chat.send("And?").await.expect("an answer");
    assert!(model.requests()[2].last_text().contains("appended one"));
}

#[tokio::test]
async fn an_end_in_the_middle_of_a_turn_is_told_with_the_results() {
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().call("look", json!({})),
        reply().text("I see both."),
    ]);
    let world = Arc::new(World::default());
    let (log, gate) = (Log::default(), Gate::new());
    let look = crate::probe::tool("look", READ, &log, Work::Gate(gate.clone()));
    let agent = Agent::builder(model.clone()).tools(tools![append]).tools([look]);
    let agent = agent.state(Arc::clone(&world)).build().expect("an agent");
    let mut chat = agent.chat();
    stopped_at_the_door(&mut chat, &world).await;
    let id = chat.transcript().messages()[0].id().to_owned();
    let run = chat.send("Go on.").into_future();
    let meanwhile = async {
        gate.reached().await;
        world.door.open();
        let of_it =
            |id: &str| tool::still_running().iter().any(|running| running.conversation == id);
        while of_it(&id) {
            tokio::task::yield_now().await;
        }
        gate.open();
    };
    let (reply, ()) = tokio::join!(run, meanwhile);
    reply.expect("an answer");
    let told = model.requests()[2].results().last().expect("a result").to_text();
    assert!(told.contains("look is done") && told.contains("appended one"), "{told}");
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn the_early_call_of_a_run_that_is_dropped_while_a_person_is_asked_is_told_with_its_result() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().call("fetch", json!({})).call("pay", json!({})).text("So."),
        reply().text("Back."),
    ]);
    let tools = [
        crate::probe::tool("fetch", READ, &log, Work::Steps(0)),
        crate::probe::tool("pay", crate::probe::MUTATE, &log, Work::Steps(0)),
    ];
    let asked = Gate::new();
    let waits = asked.clone();
    let approver = move |question: harness::policy::ApprovalRequest| {
        let gate = waits.clone();
        async move {
            gate.pass().await;
            question.yes()
        }
    };
    let agent = Agent::builder(model).tools(tools).approver(approver).build().expect("an agent");
    let mut chat = agent.chat();
    {
        let run = chat.send("Go.").into_future();
        tokio::select! {
            _ = run => panic!("nobody answers"),
            () = asked.reached() => {}
        }
    }
    let results: HashMap<String, CallOutcome> = chat
        .transcript()
        .messages()
        .iter()
        .flat_map(Message::results)
        .map(|result| (result.call_id().to_owned(), result.outcome()))
        .collect();
    assert_eq!(results["call_1"], CallOutcome::Succeeded, "it ran, early");
    assert_eq!(results["call_2"], CallOutcome::NotStarted);
    assert_eq!(log.lines(), ["begin fetch", "end fetch"]);
}

/// Reports often.
#[tool(side_effects = "read")]
async fn count(
    /** How far */
    to: u32,
    context: &ToolContext,
) -> u32 {
    for at in 0..to {
        context.progress().report(format!("{at}"));
        if at % 1_000 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    to
}

#[tokio::test(start_paused = true)]
async fn how_far_a_tool_has_come_is_told_ten_times_a_second_and_the_last_always() {
    let model = ScriptedProvider::new([
        reply().call("count", json!({"to": 100_001})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model).tools(tools![count]).build().expect("an agent");
    let mut told = Vec::new();
    let begun = tokio::time::Instant::now();
    let run = agent.run("Go.").on_event(|event| {
        if let Event::ToolProgress { message, .. } = event {
            told.push(message.to_owned());
        }
    });
    run.await.expect("an answer");
    // 101 sleeps of 10 ms.
    let tenths = begun.elapsed().as_millis() / 100;
    assert_eq!(tenths, 10);
    assert!((10..=13).contains(&told.len()), "{} reports", told.len());
    assert_eq!(told.last().map(String::as_str), Some("100000"));
}

#[tokio::test(start_paused = true)]
async fn every_call_that_was_shown_has_one_end_wherever_the_run_stops() {
    let mut stops = 0;
    for events in 1.. {
        let log = Log::default();
        let model = ScriptedProvider::new([
            reply().call("look", json!({})).call("peek", json!({})).text("And").text(" so."),
            reply().call("look", json!({})).text("cut").cut(),
        ]);
        let tools = [
            crate::probe::tool("look", READ, &log, Work::Steps(2)),
            crate::probe::tool("peek", READ, &log, Work::Steps(9)),
            crate::probe::tool("write", WRITE, &log, Work::Steps(1)),
        ];
        let agent = Agent::builder(model).tools(tools).build().expect("an agent");
        let (mut chat, token) = (agent.chat(), CancellationToken::new());
        let stop = token.clone();
        let (mut seen, mut open, mut wrong) = (0, Vec::new(), Vec::new());
        let run = chat.send("Go.").cancel_with(token).on_event(|event| {
            seen += 1;
            if seen == events {
                stop.cancel();
            }
            match event {
                Event::ToolCall(call) => open.push(call.id().to_owned()),
                Event::ToolResult { call, .. } | Event::ToolDropped { call } => {
                    match open.iter().position(|id| id == call.id()) {
                        Some(at) => _ = open.remove(at),
                        None => wrong.push(call.id().to_owned()),
                    }
                }
                _ => {}
            }
        });
        _ = run.await;
        assert!(open.is_empty() && wrong.is_empty(), "{events}: {open:?}, {wrong:?}");
        stops += 1;
        if seen < events {
            break;
        }
    }
    assert!(stops > 10, "{stops}");
}

#[tokio::test]
async fn calls_of_two_answers_to_one_message_have_keys_of_their_own() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&keys);
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let pay = harness::Tool::new("pay", "Pays.", schema, WRITE, move |context, _| {
        noted.lock().expect("unpoisoned").push(context.idempotency_key().to_owned());
        Box::pin(async { Ok("paid".into()) })
    });
    // Going on twice from one transcript, with a server that counts its ids from 0.
    let mut before = harness::Transcript::default();
    before.push(Message::user("Pay.")).expect("lawful");
    for cents in [1, 2] {
        let model = ScriptedProvider::new([
            reply().call_with_id("0", "pay", json!({"cents": cents})),
            reply().text("Done."),
        ]);
        let agent = Agent::builder(model).tools([pay.clone()]).build().expect("an agent");
        agent.chat_from(before.clone()).resume().await.expect("an answer");
    }
    let keys = keys.lock().expect("unpoisoned").clone();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_limit_stops_a_run_with_the_truth_about_its_early_calls() {
    let log = Log::default();
    let said = reply().call("look", json!({})).call("write", json!({})).tokens(900, 900);
    let model = ScriptedProvider::new([said, reply().text("Back.")]);
    let tools = [
        crate::probe::tool("look", READ, &log, Work::Steps(0)),
        crate::probe::tool("write", WRITE, &log, Work::Steps(0)),
    ];
    let limits = harness::Limits::new().output_tokens(500);
    let agent = Agent::builder(model).tools(tools).run_limits(limits).build().expect("an agent");
    let stopped = agent.run("Go.").await.expect_err("over the limit");
    assert_eq!(stopped.outcome(), harness::Outcome::Limit(LimitKind::OutputTokens));
    let results: Vec<CallOutcome> = stopped
        .transcript()
        .messages()
        .iter()
        .flat_map(Message::results)
        .map(harness::ToolResult::outcome)
        .collect();
    let ran = log.has("begin look");
    let first = match log.has("end look") {
        true => CallOutcome::Succeeded,
        false if ran => CallOutcome::StoppedReading,
        false => CallOutcome::NotStarted,
    };
    assert_eq!(results, [first, CallOutcome::NotStarted]);
}
