//! Random runs that are stopped at random instants: answers with calls that start early, need approval,
//! run on threads of their own, or panic; people who answer yes, no, always or not at all; runs that are
//! dropped or cancelled at any poll or event. At each instant the model is told of each call what its
//! tool has recorded.
//!
//! `HARNESS_SWEEP=20000 cargo test -p harness-tests sweep -- --nocapture` runs more of them.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll},
};

use fastrand::Rng;
use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Event, Message, SideEffect, SideEffects, State,
    Tool, ToolError, Transcript,
    agent::AgentBuilder,
    policy::{Approval, ApprovalRequest, Permissions, RuleDecision},
    testing::{ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::{Value, json};

use crate::{
    probe::{MUTATE, READ, WRITE},
    transcripts::obeys,
};

/// How often each call began and ended, by its number, and the door at which threads wait.
#[derive(Default)]
struct World {
    calls: Mutex<HashMap<u64, (u32, u32)>>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl World {
    fn begins(&self, number: u64) {
        self.calls.lock().expect("unpoisoned").entry(number).or_default().0 += 1;
    }

    fn ends(&self, number: u64) {
        self.calls.lock().expect("unpoisoned").entry(number).or_default().1 += 1;
    }

    fn of(&self, number: u64) -> (u32, u32) {
        self.calls.lock().expect("unpoisoned").get(&number).copied().unwrap_or_default()
    }

    /// Waits on a thread until the test lets threads go.
    fn wait(&self) {
        let mut open = self.open.lock().expect("unpoisoned");
        while !*open {
            open = self.opened.wait(open).expect("unpoisoned");
        }
    }

    fn open(&self) {
        *self.open.lock().expect("unpoisoned") = true;
        self.opened.notify_all();
    }
}

/// Works on a thread of its own, and listens to nobody.
#[tool(side_effects = "write")]
fn deaf(
    /** Which call */
    n: u64,
    world: State<Arc<World>>,
) -> Result<u64, ToolError> {
    world.begins(n);
    world.wait();
    world.ends(n);
    Ok(n)
}

/// Works on a thread of its own, and is done at once.
#[tool(side_effects = "write")]
fn quick(
    /** Which call */
    n: u64,
    world: State<Arc<World>>,
) -> u64 {
    world.begins(n);
    world.ends(n);
    n
}

/// What a tool does between its beginning and its end.
#[derive(Clone, Copy)]
enum Does {
    Steps(u32),
    Panics,
    Fails,
    PanicsWhenDropped,
}

/// Panics when it is dropped before its end.
struct Brittle {
    left: u32,
}

impl Future for Brittle {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(self.left == 0 || std::thread::panicking(), "dropped");
    }
}

fn tool_of(name: &'static str, effects: SideEffects, does: Does, world: &Arc<World>) -> Tool {
    let world = Arc::clone(world);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does its work.", schema, effects, move |_, arguments| {
        let world = Arc::clone(&world);
        let number = arguments.get("n").and_then(Value::as_u64).unwrap_or_default();
        Box::pin(async move {
            world.begins(number);
            match does {
                Does::Steps(steps) => {
                    for _ in 0..steps {
                        tokio::task::yield_now().await;
                    }
                }
                Does::Panics => panic!("fell"),
                Does::Fails => return Err(ToolError::new("cannot")),
                Does::PanicsWhenDropped => Brittle { left: 4 }.await,
            }
            world.ends(number);
            Ok("done".into())
        })
    })
}

const NAMES: [&str; 10] =
    ["look", "peek", "fetch", "write", "pay", "falls", "fails", "brittle", "quick", "deaf"];

fn reads(name: &str) -> bool {
    matches!(name, "look" | "peek" | "fetch" | "fails")
}

fn with_tools(agent: AgentBuilder, world: &Arc<World>) -> AgentBuilder {
    let looks_up = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    agent
        .tools([
            tool_of("look", READ, Does::Steps(0), world),
            tool_of("peek", READ, Does::Steps(5), world),
            tool_of("fetch", looks_up, Does::Steps(2), world),
            tool_of("write", WRITE, Does::Steps(2), world),
            tool_of("pay", MUTATE, Does::Steps(1), world),
            tool_of("falls", WRITE, Does::Panics, world),
            tool_of("fails", READ, Does::Fails, world),
            tool_of("brittle", WRITE, Does::PanicsWhenDropped, world),
        ])
        .tools(tools![quick, deaf])
        .state(Arc::clone(world))
}

/// An answer with up to five calls, pieces of words between them, sometimes cut off.
fn answer(rng: &mut Rng, number: &mut u64) -> ScriptedReply {
    let mut said = reply().text("Well.");
    for _ in 0..rng.usize(..6) {
        *number += 1;
        let name = NAMES[rng.usize(..NAMES.len())];
        said = match rng.u8(..12) {
            0 => said.call_text(name, format!(r#"{{"n":{number},"n":0}}"#)),
            1 => said.call_text(name, r#"{"n":"#),
            _ => said.call(name, json!({ "n": *number })),
        };
        if rng.bool() {
            said = said.text("And.");
        }
    }
    if rng.u8(..6) == 0 { said.cut() } else { said }
}

/// A person who says yes, no, always or nothing, or falls.
async fn decides(question: ApprovalRequest, mood: u8) -> Approval {
    tokio::task::yield_now().await;
    match mood {
        0 | 1 => question.yes(),
        2 => question.always(),
        3 => question.no("not now"),
        4 => panic!("the person fell"),
        _ => std::future::pending().await,
    }
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    DropAtPoll(u32),
    CancelAtPoll(u32),
    CancelAtEvent(u32),
    PanicAtEvent(u32),
    RulePanics,
}

#[derive(Debug, Default)]
struct Figures {
    runs: usize,
    calls: usize,
    by_outcome: HashMap<String, usize>,
    lies: Vec<String>,
    unended: usize,
    threads: usize,
}

async fn one(seed: u64, figures: &mut Figures) {
    let mut rng = Rng::with_seed(seed);
    let world = Arc::new(World::default());
    let mut number = 0;
    let mut script: Vec<ScriptedReply> =
        (0..rng.usize(1..4)).map(|_| answer(&mut rng, &mut number)).collect();
    script.push(reply().text("Done."));
    let model = ScriptedProvider::new(script);
    let stop = match rng.u8(..9) {
        0..3 => Stop::DropAtPoll(rng.u32(..60)),
        3..5 => Stop::CancelAtPoll(rng.u32(..60)),
        5..7 => Stop::CancelAtEvent(rng.u32(..30)),
        7 => Stop::PanicAtEvent(rng.u32(..30)),
        _ => Stop::RulePanics,
    };
    let mut permissions = Permissions::default();
    if rng.bool() {
        permissions = permissions.ask("write").ask("peek");
    }
    if let Stop::RulePanics = stop {
        permissions = permissions.rule("weak", |call| match call.tool {
            "look" => panic!("the rule fell"),
            "fetch" => Some(RuleDecision::Ask),
            _ => None,
        });
    }
    let mood = rng.u8(..7);
    let agent = with_tools(Agent::builder(model), &world)
        .permissions(permissions)
        .approver(move |question: ApprovalRequest| decides(question, mood))
        .build()
        .expect("an agent");
    let mut chat = agent.chat();
    let open = stopped(&mut chat, stop).await;
    figures.unended += open;

    let at = format!("seed {seed}, {stop:?}");
    let transcript = chat.transcript().clone();
    obeys(transcript.sendable().unwrap_or_else(|err| panic!("{at}: {err}")));
    let still = chat.still_running().len();
    figures.threads += still;
    judge(&transcript, &world, &at, figures);
    // What was told as still running ends after all, and the conversation hears of it.
    world.open();
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut ends = 0;
    let run = chat.send("On.").on_event(|event| {
        ends += usize::from(matches!(event, Event::ToolEnded { .. }));
    });
    // The rest of the script asks for more; what is of interest is that it can be sent.
    let mut run = run.into_future();
    for _ in 0..20 {
        if futures_util::FutureExt::now_or_never(&mut run).is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(run);
    assert!(ends >= still, "{at}: {still} still ran, {ends} were told of");
    obeys(chat.transcript().sendable().unwrap_or_else(|err| panic!("{at}: {err}")));
    figures.runs += 1;
}

/// Runs and stops; gives how many calls were shown and had no end.
async fn stopped(chat: &mut Chat, stop: Stop) -> usize {
    let token = CancellationToken::new();
    let cancel = token.clone();
    let shown = Arc::new(Mutex::new(HashMap::<String, i32>::new()));
    let noted = Arc::clone(&shown);
    let mut events = 0;
    let mut run = chat
        .send("Go.")
        .cancel_with(token.clone())
        .on_event(move |event| {
            let mut noted = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match event {
                Event::ToolCall(call) => *noted.entry(call.id().to_owned()).or_default() += 1,
                Event::ToolResult { call, .. } | Event::ToolDropped { call } => {
                    if let Some(open) = noted.get_mut(call.id()) {
                        *open -= 1;
                    }
                }
                _ => {}
            }
            events += 1;
            match stop {
                Stop::CancelAtEvent(at) if events > at => cancel.cancel(),
                Stop::PanicAtEvent(at) if events > at => panic!("the screen fell"),
                _ => {}
            }
        })
        .into_future();
    let polls = match stop {
        Stop::DropAtPoll(polls) | Stop::CancelAtPoll(polls) => polls,
        Stop::CancelAtEvent(_) | Stop::PanicAtEvent(_) | Stop::RulePanics => 300,
    };
    let mut ended = false;
    for _ in 0..polls {
        ended = futures_util::FutureExt::now_or_never(&mut run).is_some();
        if ended {
            break;
        }
        tokio::task::yield_now().await;
    }
    if !ended && !matches!(stop, Stop::DropAtPoll(_)) {
        // Also a person who never answers, and a thread that never ends, is no reason to go on.
        token.cancel();
        _ = run.await;
    } else {
        drop(run);
    }
    let shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match stop {
        // Nobody is told any more once watching has failed.
        Stop::PanicAtEvent(_) => 0,
        _ => shown.values().filter(|open| **open != 0).count(),
    }
}

/// Compares what is told of each call with what its tool wrote down.
fn judge(transcript: &Transcript, world: &World, at: &str, figures: &mut Figures) {
    let messages = transcript.messages();
    let results: HashMap<&str, CallOutcome> = messages
        .iter()
        .flat_map(Message::results)
        .map(|result| (result.call_id(), result.outcome()))
        .collect();
    for call in messages.iter().flat_map(Message::calls) {
        let number = call.decoded().ok().and_then(|all| all.get("n")?.as_u64());
        let (began, ended) = number.map(|number| world.of(number)).unwrap_or_default();
        let told = results[call.id()];
        let name = call.name();
        let is_true = began <= 1
            && match told {
                CallOutcome::Succeeded => ended == 1,
                CallOutcome::Failed => began == 0 || (ended == 0 && matches!(name, "fails")),
                CallOutcome::Denied | CallOutcome::NotStarted => began == 0,
                CallOutcome::StoppedReading => reads(name) && ended == 0,
                CallOutcome::InDoubt => !reads(name) && name != "deaf" || began == 0,
                // It may have ended since.
                CallOutcome::StillRunning => matches!(name, "deaf" | "quick") && began == 1,
            };
        figures.calls += 1;
        *figures.by_outcome.entry(format!("{told:?}")).or_default() += 1;
        if !is_true {
            figures.lies.push(format!("{at}: `{name}` is told as {told:?}: {began} {ended}"));
        }
    }
}

#[tokio::test]
async fn whatever_the_instant_the_model_is_told_what_happened() {
    let runs = std::env::var("HARNESS_SWEEP").ok().and_then(|runs| runs.parse().ok());
    let mut figures = Figures::default();
    for seed in 0..runs.unwrap_or(200) {
        one(seed, &mut figures).await;
    }
    let Figures { runs, calls, by_outcome, lies, unended, threads } = &figures;
    println!(
        "{runs} runs, {calls} calls ({by_outcome:?}), {threads} threads that lived on, {} lies, \
         {unended} calls without an end",
        lies.len()
    );
    assert!(lies.is_empty(), "{lies:#?}");
    assert_eq!(*unended, 0, "each call that was shown has an end");
    // The sweep is worth something only if it meets all kinds.
    assert_eq!(by_outcome.len(), 7, "{by_outcome:?}");
}
