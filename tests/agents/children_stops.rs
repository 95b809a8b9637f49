//! Agents that run agents, three deep and ten side by side, stopped at every event: nothing is left running,
//! each level tells the truth, and the sums are equal.
//!
//! `HARNESS_SWEEP=1 cargo test -p harness-tests children_stops` stops at each event, else at every 59th.

use std::{
    collections::BTreeMap,
    future::{IntoFuture as _, poll_fn},
    sync::{Arc, Mutex},
    task::Poll,
};

use harness::{
    Agent, CallOutcome, CancellationToken, Event, Permissions, SideEffects, Tool,
    journal::{ConversationQuery, Fact, Journal, MemoryJournal},
    testing::{ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;

use crate::kept::CHAT;
use crate::probe::{READ, WRITE};

/// How often the calls of each key have begun and ended.
type Calls = BTreeMap<String, (u32, u32)>;

/// The calls, and how many go on.
#[derive(Clone, Default)]
struct World(Arc<Mutex<(Calls, usize)>>);

/// A call that goes on until this is dropped.
struct Going(World);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.0.lock().expect("unpoisoned").1 -= 1;
    }
}

impl World {
    fn tool(&self, effects: SideEffects) -> Tool {
        let world = self.clone();
        Tool::new("work", "Works.", json!({"type": "object"}), effects, move |context, _| {
            let world = world.clone();
            Box::pin(async move {
                let key = context.idempotency_key().to_owned();
                {
                    let mut all = world.0.lock().expect("unpoisoned");
                    all.0.entry(key.clone()).or_default().0 += 1;
                    all.1 += 1;
                }
                let _going = Going(world.clone());
                tokio::task::yield_now().await;
                world.0.lock().expect("unpoisoned").0.entry(key).or_default().1 += 1;
                Ok("worked".into())
            })
        })
    }
}

/// Makes so many calls, once, and then says how many results it has read.
fn model(calls: usize, name: &'static str) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().count() {
        0 => {
            let ask = |it: ScriptedReply, n| {
                it.call_with_id(format!("{name}{n}"), name, json!({"task": format!("{name} {n}")}))
            };
            (0..calls).fold(reply().text("I see."), ask).tokens(100, 10)
        }
        read => reply().text(format!("read {read}")).tokens(100, 10),
    })
}

struct Tree {
    models: Vec<ScriptedProvider>,
    lead: Agent,
    world: World,
}

/// Ten agents side by side, each with one below it, which calls a tool twice.
fn tree(effects: SideEffects) -> Tree {
    let world = World::default();
    let models = vec![model(2, "work"), model(1, "deep"), model(10, "middle")];
    let build = |n: usize, tool: Tool| {
        let agent = Agent::builder(models[n].clone()).tools([tool]);
        agent.permissions(Permissions::allow_all()).build().expect("an agent")
    };
    let deep = build(0, world.tool(effects));
    let middle = build(1, deep.as_tool("deep", "Works."));
    let lead = build(2, middle.as_tool("middle", "Works."));
    Tree { models, lead, world }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Cancel,
    Drop,
}

/// Runs it until this event, and looks at what is left. Says whether there was such an event.
async fn stopped_at(effects: SideEffects, stop: Stop, at: usize) -> bool {
    let what = format!("{effects}, {stop:?} at {at}");
    let Tree { models, lead, world } = tree(effects);
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let (token, seen) = (CancellationToken::new(), Mutex::new((0, 0_u64)));
    let run = chat.send("Go.").cancel_with(token.clone()).on_event(|event| {
        let mut seen = seen.lock().expect("unpoisoned");
        seen.0 += 1;
        let event = match event {
            Event::OfAgent { event, .. } => event.as_event(),
            event => event,
        };
        if let Event::TurnEnded { usage, .. } = event {
            seen.1 += usage.input.unwrap_or(0);
        }
        if seen.0 == at && stop == Stop::Cancel {
            token.cancel();
        }
    });
    let mut run = Some(Box::pin(run.into_future()));
    poll_fn(|context| {
        let ended = run.as_mut().is_none_or(|run| run.as_mut().poll(context).is_ready());
        let reached = seen.lock().expect("unpoisoned").0 >= at;
        if ended || (reached && stop == Stop::Drop) {
            run = None;
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
    drop(run);
    let (events, input) = *seen.lock().expect("unpoisoned");

    // Nothing is left running.
    assert_eq!(world.0.lock().expect("unpoisoned").1, 0, "{what}");
    assert!(models.iter().all(|model| model.open_streams() == 0), "{what}");
    // Each answer that came to its end is counted once, at whatever depth it was given.
    let sum = chat.budget().spent();
    assert_eq!(sum.usage.input.unwrap_or(0), input, "{what}");
    chat.save().await.expect("written");
    let transcript = chat.transcript().clone();
    drop(chat);
    let chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.budget().spent(), sum, "{what}");
    assert_eq!(chat.transcript().messages().len(), transcript.messages().len(), "{what}");
    drop(chat);
    truth(&journal, &world, effects, &what).await;
    // It can go on.
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    chat.send("Go on.").await.unwrap_or_else(|stopped| panic!("{what}: {stopped}"));
    events >= at
}

/// What each conversation says of each call is what its tool wrote down.
async fn truth(journal: &MemoryJournal, world: &World, effects: SideEffects, what: &str) {
    let page = journal.list(&ConversationQuery::new().limit(1000)).await.expect("a page");
    let mut open = Vec::new();
    let mut ended = BTreeMap::new();
    for summary in &page.conversations {
        let facts = journal.read(&summary.id, 0).await.expect("facts").facts;
        for fact in facts {
            match fact.fact().expect("a fact") {
                Fact::CallStarted { call } => open.push((summary.id.clone(), call)),
                Fact::CallFinished { result, .. } => {
                    let of = (summary.id.clone(), result.call_id().to_owned());
                    ended.insert(of, result.outcome());
                }
                _ => {}
            }
        }
    }
    let world = world.0.lock().expect("unpoisoned").0.clone();
    for (key, (begun, done)) in &world {
        assert_eq!(*begun, 1, "{what}: {key}");
        let at = key.find("/deep0/").expect("the conversation of the third level") + "/deep0".len();
        let conversation = key[..at].to_owned();
        let call = key[at + 1..].split('/').nth(1).expect("the call").to_owned();
        let of = (conversation, call);
        if effects == WRITE {
            assert!(open.contains(&of), "{what}: {key} is not said to have started");
        }
        match ended.get(&of) {
            Some(CallOutcome::Succeeded) => assert_eq!(*done, 1, "{what}: {key}"),
            Some(CallOutcome::InDoubt | CallOutcome::StoppedReading) | None => {}
            Some(other) => panic!("{what}: {key} is said to be {other:?}"),
        }
    }
    for (of, outcome) in &ended {
        if *outcome == CallOutcome::Succeeded && of.1.starts_with("work") {
            let done = world.iter().any(|(key, (_, done))| {
                *done == 1 && key.starts_with(&of.0) && key.contains(&format!("/{}/", of.1))
            });
            assert!(done, "{what}: {of:?} is said to have succeeded");
        }
    }
}

async fn sweep(stop: Stop) {
    let stride = if std::env::var_os("HARNESS_SWEEP").is_some() { 1 } else { 59 };
    for effects in [READ, WRITE] {
        let mut at = 1;
        while stopped_at(effects, stop, at).await {
            at += stride;
        }
        assert!(at > 200, "there were {at} events");
    }
}

#[tokio::test]
async fn cancelled_at_events_of_any_depth_nothing_is_left_and_all_is_true() {
    sweep(Stop::Cancel).await;
}

#[tokio::test]
async fn dropped_at_events_of_any_depth_nothing_is_left_and_all_is_true() {
    sweep(Stop::Drop).await;
}
