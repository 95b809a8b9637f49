//! The truth about calls: threads that outlive their calls in chats that are dropped,
//! copied or moved to another runtime, and ids that a model uses twice.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Error, ErrorKind, Event, Message, SideEffects,
    State, StreamEvent, Tool, ToolContext, Transcript,
    journal::Fact,
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

use crate::kept::{Watched, kept_in};
use crate::{
    door::Door,
    probe::{Log, READ, WRITE, takes_all},
};

#[derive(Default)]
struct World {
    door: Door,
    log: Log,
}

/// Opens the door also if the test fails, so that the runtime can end.
struct Opens(Arc<World>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.door.open();
    }
}

fn world() -> (Arc<World>, Opens) {
    let world = Arc::new(World::default());
    (Arc::clone(&world), Opens(world))
}

/// Appends a line, and does not listen to anybody.
#[tool(side_effects = "write")]
fn append(
    /** The line */
    line: String,
    /** A note */
    note: Option<String>,
    /** How often */
    #[param(default = 1)]
    times: i64,
    world: State<Arc<World>>,
) -> String {
    world.log.note(format!("begin {line}"));
    world.door.pass();
    world.log.note(format!("end {line}"));
    format!("appended {line} {times} times {}", note.unwrap_or_default())
}

fn appender(model: &ScriptedProvider, world: &Arc<World>) -> Agent {
    let agent = Agent::builder(model.clone()).tools(tools![append]).state(Arc::clone(world));
    agent.build().expect("an agent")
}

/// What is told of each call: its id, its outcome, the text.
fn results(transcript: &Transcript) -> Vec<(String, CallOutcome, String)> {
    let results = transcript.messages().iter().flat_map(Message::results);
    results.map(|it| (it.call_id().to_owned(), it.outcome(), it.to_text())).collect()
}

/// Whether the model was told that the line was appended.
fn told_of_the_end(chat: &Chat) -> bool {
    format!("{:?}", chat.transcript()).contains("appended one")
}

/// Sends a message and stops the run when its tool waits at the door.
async fn stopped_at_the_door(chat: &mut Chat, message: Message, world: &World) {
    let token = CancellationToken::new();
    let run = chat.send(message).cancel_with(token.clone()).into_future();
    let stop = async {
        while world.door.came() == 0 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    };
    let (ended, ()) = tokio::join!(run, stop);
    ended.expect_err("stopped");
}

/// Waits until the conversation has nothing that still runs.
async fn ended(chat: &Chat) {
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Runs while the clock is moved by hand: it stands still while a thread for blocking work runs.
async fn out_of_time(chat: &mut Chat, world: &World) {
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
}

/// Sends a message and counts the ends that are told of while it is answered.
async fn ends_told(chat: &mut Chat, message: impl Into<Message>) -> usize {
    let mut told = 0;
    let run = chat.send(message);
    let run = run.on_event(|event| told += usize::from(matches!(event, Event::ToolEnded { .. })));
    run.await.expect("an answer");
    told
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_equal_calls_does_not_begin_behind_the_thread_of_the_first() {
    let (world, _opens) = world();
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})).call("append", json!({"line": "one"})),
        reply().text("Done."),
    ]);
    let mut chat = appender(&model, &world).chat();
    out_of_time(&mut chat, &world).await;
    let told = results(chat.transcript());
    assert_eq!(told[0].1, CallOutcome::StillRunning, "{told:?}");
    assert_eq!(told[1].1, CallOutcome::NotStarted, "{told:?}");
    assert_eq!(world.log.lines(), ["begin one"]);
}

#[tokio::test]
async fn an_equal_call_is_found_however_it_is_spelled() {
    for spelling in [
        r#"{"line":"one","times":1,"note":null}"#,
        r#"{"line":"one"}"#,
        r#"{"line":"one","times":1.0}"#,
        r#"{"\u0074imes":1 , "line":"o\u006ee"}"#,
    ] {
        let (world, _opens) = world();
        let model = ScriptedProvider::new([
            reply().call_text("append", r#"{"line":"one","times":1}"#),
            reply().call_text("append", spelling),
            reply().text("Done."),
        ]);
        let mut chat = appender(&model, &world).chat();
        stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
        let begins_again = async {
            while world.door.came() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            reply = chat.send("Go on.").into_future() => { reply.expect("an answer"); }
            () = begins_again => panic!("{spelling} began"),
        }
        let told = results(chat.transcript());
        assert_eq!(told[1].1, CallOutcome::NotStarted, "{spelling}: {told:?}");
        assert_eq!(world.log.lines(), ["begin one"], "{spelling}");
    }
}

#[tokio::test]
async fn a_chat_from_the_transcript_of_a_dropped_one_hears_of_its_thread() {
    let (world, _opens) = world();
    let call = || reply().call("append", json!({"line": "one"}));
    let model = ScriptedProvider::new([call(), call(), reply().text("x"), reply().text("y")]);
    let agent = appender(&model, &world);
    let mut chat = agent.chat();
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    let saved = serde_json::to_string(chat.transcript()).expect("JSON");
    drop(chat);
    let mut chat = agent.chat_from(serde_json::from_str(&saved).expect("a transcript"));
    assert_eq!(chat.still_running().len(), 1);
    assert_eq!(ends_told(&mut chat, "Again.").await, 0);
    assert_eq!(world.log.lines(), ["begin one"]);
    world.door.open();
    ended(&chat).await;
    assert_eq!(ends_told(&mut chat, "Now?").await, 1);
    assert!(told_of_the_end(&chat));
}

#[tokio::test]
async fn two_chats_from_one_transcript_both_hear_of_the_end() {
    let (world, _opens) = world();
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().text("x"),
        reply().text("y"),
    ]);
    let agent = appender(&model, &world);
    let mut chat = agent.chat();
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    let mut other = agent.chat_from(chat.transcript().clone());
    assert_eq!(other.still_running().len(), 1);
    world.door.open();
    ended(&chat).await;
    for (at, chat) in [(1, &mut chat), (2, &mut other)] {
        assert_eq!(ends_told(chat, "Now?").await, 1, "{at}");
        let asked = model.requests()[at].last_text();
        assert!(asked.contains("appended one"), "{asked}");
    }
}

#[tokio::test]
async fn an_end_that_was_taken_by_a_run_that_failed_is_told_later() {
    let (world, _opens) = world();
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().error(Error::new(ErrorKind::Api, "no")),
        reply().text("y"),
    ]);
    let mut chat = appender(&model, &world).chat();
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    world.door.open();
    ended(&chat).await;
    // Dropped before the first poll: nothing is taken.
    drop(chat.send("Now?"));
    drop(chat.send("Now?").into_future());
    chat.send("Now?").await.expect_err("failed");
    chat.send("And now?").await.expect("an answer");
    assert!(format!("{:?}", model.requests()[2]).contains("appended one"));
}

#[tokio::test]
async fn an_end_that_was_told_is_not_told_again_by_a_chat_that_is_made_of_the_transcript() {
    let (world, _opens) = world();
    let model = ScriptedProvider::new([
        reply().call("append", json!({"line": "one"})),
        reply().text("y"),
        reply().text("z"),
    ]);
    let agent = appender(&model, &world);
    let mut chat = agent.chat();
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    world.door.open();
    ended(&chat).await;
    assert_eq!(ends_told(&mut chat, "Now?").await, 1);
    let after = chat.transcript().clone();
    assert_eq!(ends_told(&mut agent.chat_from(after), "And now?").await, 0);
}

#[tokio::test]
async fn an_end_that_could_not_be_written_is_told_later() {
    let (world, _opens) = world();
    let model =
        ScriptedProvider::new([reply().call("append", json!({"line": "one"})), reply().text("y")]);
    // It is full when the first end of a thread is written: at first, and once more at the end.
    let full = Arc::new(AtomicUsize::new(2));
    let journal = Watched::new(move |facts: &[Fact]| {
        let ends = facts.iter().any(|fact| matches!(fact, Fact::CallEnded { .. }));
        let left = full.load(Ordering::SeqCst);
        if ends && left > 0 {
            full.store(left - 1, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::Journal, "disk full"));
        }
        Ok(())
    });
    let mut chat = kept_in(&appender(&model, &world), &journal);
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    world.door.open();
    ended(&chat).await;
    chat.send("Now?").await.expect_err("failed");
    chat.send("And now?").await.expect("an answer");
    assert!(told_of_the_end(&chat));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_chat_that_moves_to_another_runtime_takes_its_thread_along() {
    let (world, _opens) = world();
    let call = || reply().call("append", json!({"line": "one"}));
    let model = ScriptedProvider::new([call(), call(), reply().text("x"), reply().text("y")]);
    let mut chat = appender(&model, &world).chat();
    let first = runtime();
    first.block_on(stopped_at_the_door(&mut chat, "Go.".into(), &world));
    first.shutdown_background();
    assert_eq!(results(chat.transcript())[0].1, CallOutcome::StillRunning);
    let next = runtime();
    next.block_on(async { chat.send("Again.").await.expect("an answer") });
    assert_eq!(world.log.lines(), ["begin one"]);
    world.door.open();
    next.block_on(ended(&chat));
    next.block_on(async { chat.send("Now?").await.expect("an answer") });
    assert!(told_of_the_end(&chat));
}

#[test]
fn a_run_that_is_dropped_outside_of_a_runtime_tells_of_its_thread() {
    let (world, _opens) = world();
    let model = ScriptedProvider::new([reply().call("append", json!({"line": "one"}))]);
    let mut chat = appender(&model, &world).chat();
    let runtime = runtime();
    let mut run = chat.send("Go.").into_future();
    runtime.block_on(async {
        while world.door.came() == 0 {
            assert!((&mut run).now_or_never().is_none(), "its tool waits at the door");
            tokio::task::yield_now().await;
        }
    });
    runtime.shutdown_background();
    drop(run);
    assert_eq!(results(chat.transcript())[0].1, CallOutcome::StillRunning);
    chat.transcript().sendable().expect("it can be sent");
}

#[tokio::test]
async fn two_chats_that_are_sent_one_message_have_keys_of_their_own() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let pay = Tool::new("pay", "Pays.", schema, WRITE, move |context: ToolContext, _| {
        seen.lock().expect("unpoisoned").push(context.idempotency_key().to_owned());
        Box::pin(async { Ok("paid".into()) })
    });
    let model = ScriptedProvider::answering(|request| match request.results().count() {
        0 => reply().call_with_id("call_1", "pay", json!({"cents": 1})),
        _ => reply().text("Done."),
    });
    let agent = Agent::builder(model).tools([pay]).build().expect("an agent");
    let message = Message::user("Pay the invoice.");
    agent.chat().send(message.clone()).await.expect("an answer");
    agent.chat().send(message).await.expect("an answer");
    let keys = keys.lock().expect("unpoisoned");
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "two conversations, two payments");
}

#[tokio::test]
async fn an_end_is_told_however_many_others_there_are() {
    let (first_world, _opens) = world();
    let model = || {
        ScriptedProvider::answering(|request| match request.results().count() {
            0 => reply().call("append", json!({"line": "one"})),
            _ => reply().text("Done."),
        })
    };
    let mut first = appender(&model(), &first_world).chat();
    stopped_at_the_door(&mut first, "Go.".into(), &first_world).await;
    first_world.door.open();
    ended(&first).await;
    // Others, each with a thread of its own that ends after its stop.
    let mut others = Vec::new();
    for _ in 0..70 {
        let (world, _opens) = world();
        let mut chat = appender(&model(), &world).chat();
        stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
        world.door.open();
        ended(&chat).await;
        others.push(chat);
    }
    assert_eq!(ends_told(&mut first, "Now?").await, 1, "{:?}", results(first.transcript()));
}

#[tokio::test]
async fn the_end_of_a_call_is_not_told_to_another_chat_of_the_same_message() {
    let (world, _opens) = world();
    let model = ScriptedProvider::answering(|request| match request.results().count() {
        0 => reply().call_with_id("c", "append", json!({"line": "one"})),
        _ => reply().text("Done."),
    });
    let agent = appender(&model, &world);
    let message = Message::user("Go.");
    let mut first = agent.chat();
    stopped_at_the_door(&mut first, message.clone(), &world).await;
    let mut second = agent.chat();
    world.door.open();
    ended(&first).await;
    assert_eq!(ends_told(&mut second, message).await, 0);
    let told = results(second.transcript());
    assert_eq!((told.len(), told[0].1), (1, CallOutcome::Succeeded), "its own call ran: {told:?}");
    assert_eq!(ends_told(&mut first, "And?").await, 1);
    assert!(told_of_the_end(&first));
}

/// A conversation goes on from an earlier transcript of it (to try again) while a thread of the other
/// branch ends.
#[tokio::test]
async fn a_thread_of_one_branch_neither_fails_the_other_nor_loses_its_end_to_it() {
    let (world, _opens) = world();
    let model = ScriptedProvider::answering(|request| match request.last_text() {
        text if text.contains("Go.") => reply().call("append", json!({"line": "one"})),
        _ => reply().text("Done."),
    });
    let agent = appender(&model, &world);
    let mut chat = agent.chat();
    chat.send("Hello").await.expect("an answer");
    let mut branch = agent.chat_from(chat.transcript().clone());
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    world.door.open();
    ended(&chat).await;
    assert_eq!(ends_told(&mut branch, "Say something else.").await, 0);
    assert_eq!(ends_told(&mut branch, "And more.").await, 0);
    assert!(!told_of_the_end(&branch));
    assert_eq!(ends_told(&mut chat, "And?").await, 1);
    assert!(told_of_the_end(&chat));
}

/// A server that counts its calls anew gives the calls of both branches the same id.
#[tokio::test]
async fn a_branch_is_not_told_that_its_own_call_ended_as_one_of_the_other_branch() {
    let (world, _opens) = world();
    let model = ScriptedProvider::answering(|request| match request.last_text() {
        text if text.contains("Go.") => reply().call_with_id("c", "append", json!({"line": "one"})),
        text if text.contains("Two") => reply().call_with_id("c", "append", json!({"line": 2})),
        _ => reply().text("Done."),
    });
    let agent = appender(&model, &world);
    let mut chat = agent.chat();
    chat.send("Hello").await.expect("an answer");
    let mut branch = agent.chat_from(chat.transcript().clone());
    branch.send("Two").await.expect("an answer");
    let failed = results(branch.transcript());
    assert_eq!((failed[0].0.as_str(), failed[0].1), ("c", CallOutcome::Failed), "it did not run");
    stopped_at_the_door(&mut chat, "Go.".into(), &world).await;
    world.door.open();
    ended(&chat).await;
    assert_eq!(ends_told(&mut branch, "And?").await, 0);
    let told = model.requests().last().expect("a request").last_text();
    assert!(!told.contains("appended one"), "{told}");
}

/// Notes each call that is shown, and each end of one.
fn note(shown: &mut Vec<String>, event: &Event<'_>) {
    match event {
        Event::ToolCall(call) => shown.push(format!("call {}", call.id())),
        Event::ToolResult { call, .. } | Event::ToolDropped { call } => {
            shown.push(format!("end {}", call.id()));
        }
        _ => {}
    }
}

#[tokio::test]
async fn two_calls_of_one_id_have_an_end_each() {
    for (effects, early) in [(WRITE, true), (READ, true), (READ, false)] {
        let effects: SideEffects = effects;
        let log = Log::default();
        let call = |said: harness::testing::ScriptedReply, x: u8| {
            said.call_with_id("a", "act", json!({ "x": x }))
        };
        let model = ScriptedProvider::new([call(call(reply(), 1), 2), reply().text("Done.")]);
        let agent = Agent::builder(model).tools([takes_all("act", effects, &log)]);
        let mut chat = agent.early_start(early).build().expect("an agent").chat();
        let mut shown = Vec::new();
        let run = chat.send("Go.").on_event(|event| note(&mut shown, &event));
        run.await.expect("an answer");
        shown.sort();
        assert_eq!(shown, ["call a", "call a_2", "end a", "end a_2"], "{effects}, {early}");
        assert_eq!(log.lines(), [r#"act {"x":1}"#, r#"act {"x":2}"#], "{effects}, {early}");
        let told = results(chat.transcript());
        assert_eq!((told[0].0.as_str(), told[1].0.as_str()), ("a", "a_2"), "{told:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_shown_again_with_other_arguments_has_an_end_each_time() {
    let (log, hold) = (Log::default(), Gate::new());
    let changed = StreamEvent::ToolCallArguments { block: 0, json: r#"{"x":2}"#.into() };
    let model = ScriptedProvider::new([
        reply()
            .begin_call("a", "act")
            .arguments(r#"{"x":1}"#)
            .wait_for(&hold)
            .event(changed)
            .end_call(),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model).tools([takes_all("act", READ, &log)]).build();
    let mut chat = agent.expect("an agent").chat();
    let mut shown = Vec::new();
    let run = chat.send("Go.").on_event(|event| note(&mut shown, &event)).into_future();
    let open = async {
        hold.reached().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        hold.open();
    };
    let (ended, ()) = tokio::join!(run, open);
    ended.expect("an answer");
    // The early call has an end, too.
    assert_eq!(log.lines(), [r#"act {"x":1}"#, r#"act {"x":2}"#]);
    assert_eq!(shown, ["call a", "end a", "call a", "end a"]);
    assert_eq!(results(chat.transcript()).len(), 1);
}
