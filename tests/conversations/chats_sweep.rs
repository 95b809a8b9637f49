//! A thousand named conversations with watchers, stops and evictions at random: each watcher sees
//! each event once and in order.

use std::{
    collections::HashMap,
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use futures_util::{Stream, StreamExt as _};
use harness::{
    Agent, Outcome,
    agent::{Chats, Event, EventBuf, Numbered},
    journal::MemoryJournal,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::chats::joined;

/// Looks.
#[tool(side_effects = "read")]
async fn look(
    /** Where */
    at: u64,
) -> String {
    sleep(Duration::from_millis(at)).await;
    format!("nothing at {at}")
}

/// What really happened: the events of each run, by what the user has said.
type World = Arc<Mutex<HashMap<String, Vec<EventBuf>>>>;

fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let pause = || Duration::from_millis(fastrand::u64(0..200));
        let asks = request.last_text().ends_with("look");
        let said = reply().reasoning("Hm, let me think.").text("It is so, ").pause(pause());
        match asks {
            true => said.call("look", json!({"at": fastrand::u64(0..100)})),
            false => said.text("and so, and not otherwise.").pause(pause()).text("The end."),
        }
    })
}

/// The runs that somebody has seen, each with its events, by what the user has said.
fn runs(seen: &[Numbered]) -> Vec<(String, Vec<EventBuf>)> {
    let mut runs: Vec<(String, Vec<EventBuf>)> = Vec::new();
    let mut before: Option<&Numbered> = None;
    for numbered in seen {
        if let Some(before) = before.filter(|before| before.run == numbered.run) {
            assert!(before.number < numbered.number, "in order, and once: {before:?} {numbered:?}");
        }
        before = Some(numbered);
        match numbered.event.as_event() {
            Event::RunStarted { said } => {
                runs.push((said.expect("a message").text(), vec![numbered.event.clone()]));
            }
            _ => runs.last_mut().expect("a run begins first").1.push(numbered.event.clone()),
        }
    }
    runs
}

fn words(events: &[EventBuf]) -> String {
    let texts = events.iter().filter_map(|event| match event.as_event() {
        Event::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Whether `seen` is the run, or its words as the facts hold them.
fn check(said: &str, seen: &[EventBuf], world: &World, exactly: bool) -> bool {
    let world = world.lock().expect("unpoisoned");
    let truth = world.get(said).unwrap_or_else(|| panic!("{said} was run"));
    let (seen, truth) = (joined(seen), joined(truth));
    if seen == truth {
        return true;
    }
    assert!(!exactly, "{said}: {seen:?}\n{truth:?}");
    let (seen, truth) = (words(&seen).replace("\n\n[interrupted]", ""), words(&truth));
    assert_eq!(seen, truth, "{said}");
    false
}

/// Takes events for a time, now and then, and leaves perhaps.
async fn watch(
    mut stream: impl Stream<Item = Numbered> + Unpin,
    mut random: Rng,
    stays: bool,
) -> (Vec<Numbered>, bool) {
    let mut seen = Vec::new();
    let mut left = random.u32(0..40);
    while let Some(numbered) = stream.next().await {
        seen.push(numbered);
        if random.u8(0..4) == 0 {
            sleep(Duration::from_millis(random.u64(0..3000))).await;
        }
        left = left.saturating_sub(1);
        if left == 0 && !stays {
            return (seen, false);
        }
    }
    (seen, true)
}

#[tokio::test(start_paused = true)]
async fn each_watcher_of_many_conversations_sees_each_event_once_and_in_order() {
    let seed = env::var("HARNESS_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(7);
    println!("HARNESS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    fastrand::seed(seed);
    let agent = Agent::builder(model()).tools(tools![look]).build().expect("an agent");
    let journal = MemoryJournal::new();
    let chats = Chats::builder(&agent, &journal)
        .idle_after(Duration::from_millis(700))
        .most_idle(100)
        .build();
    let world = World::default();
    let mut watching = JoinSet::new();
    let mut speaking = JoinSet::new();
    for number in 0..crate::times(250) {
        let (id, chats, world) = (format!("chat-{number}"), chats.clone(), Arc::clone(&world));
        for _ in 0..random.usize(1..4) {
            let (id, chats, mut random) = (id.clone(), chats.clone(), random.fork());
            watching.spawn(async move {
                sleep(Duration::from_millis(random.u64(0..6000))).await;
                let stays = random.bool();
                let watcher = chats.watch(&id).await.expect("a watcher");
                drop(chats);
                let (seen, to_the_end) = watch(watcher, random, stays).await;
                (number, seen, to_the_end, false)
            });
        }
        let mut random = random.fork();
        speaking.spawn(async move {
            let mut runs = JoinSet::new();
            for at in 0..random.u32(1..5) {
                sleep(Duration::from_millis(random.u64(0..2000))).await;
                let what = if random.bool() { " look" } else { "" };
                let said = format!("{number}/{at}{what}");
                let (truth, key) = (Arc::clone(&world), said.clone());
                let keeps = move |event: Event<'_>| {
                    let mut truth = truth.lock().expect("unpoisoned");
                    truth.entry(key.clone()).or_default().push(event.into_owned());
                };
                let run = chats.send(id.as_str(), said).with(|run| run.on_event(keeps));
                let run = run.await.expect("a run");
                match random.u8(0..4) {
                    0 => drop(run),
                    _ => {
                        let random = random.fork();
                        runs.spawn(async move { watch(run, random, true).await.0 });
                    }
                }
                if random.u8(0..5) == 0 {
                    sleep(Duration::from_millis(random.u64(0..300))).await;
                    chats.stop(&id);
                }
            }
            (number, runs.join_all().await)
        });
    }
    let mut exact = 0;
    let mut order: HashMap<u32, Vec<String>> = HashMap::new();
    for (_, seen) in speaking.join_all().await {
        for (said, events) in seen.iter().flat_map(|seen| runs(seen)) {
            assert!(check(&said, &events, &world, true));
            exact += 1;
        }
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(chats.open_conversations(), 0, "all are idle for long");
    for said in world.lock().expect("unpoisoned").keys() {
        let number = said.split('/').next().expect("a number").parse().expect("a number");
        order.entry(number).or_default().push(said.clone());
    }
    order.values_mut().for_each(|runs| runs.sort());
    chats.close().await;
    let (mut live, mut from_facts) = (0, 0);
    for (number, seen, to_the_end, _) in watching.join_all().await {
        let seen = runs(&seen);
        let all = &order[&number];
        // Runs follow each other without a gap, up to the last one.
        let said: Vec<&String> = seen.iter().map(|(said, _)| said).collect();
        let Some(first) = said.first() else { continue };
        let at = all.iter().position(|run| run == *first).expect("a run");
        assert_eq!(said, Vec::from_iter(&all[at..at + said.len()]), "chat {number}");
        assert!(!to_the_end || at + said.len() == all.len(), "chat {number} to the end");
        let whole = if to_the_end { seen.len() } else { seen.len() - 1 };
        for (said, events) in &seen[..whole] {
            match check(said, events, &world, false) {
                true => live += 1,
                false => from_facts += 1,
            }
        }
    }
    println!("{exact} by who sent, {live} watched, {from_facts} as the facts hold them");
    assert!(exact > crate::times(300) && live > crate::times(150) && from_facts > crate::times(3));
    let world = world.lock().expect("unpoisoned");
    let stopped = world.values().filter(|run| {
        matches!(
            run.last().map(EventBuf::as_event),
            Some(Event::RunEnded { outcome: Outcome::Cancelled, .. })
        )
    });
    assert!(stopped.count() > 50);
}
