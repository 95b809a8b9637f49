//! What is told of a life, compared with what really happened.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use harness::{
    CallOutcome, Event, Message,
    agent::{Chat, ChatWatcher},
    journal::{ConversationQuery, Fact, Journal},
};

use crate::{
    life::{Life, Watched},
    program::Version,
};

/// Judges all conversations at the end.
pub(crate) async fn judge<J: Journal + Clone + 'static>(life: &Life<J>) {
    let all = life.journal.list(&ConversationQuery::new()).await.expect("a list");
    let mut rng = fastrand::Rng::with_seed(life.seed);
    let person = crate::people::Person::new(&mut rng);
    let agent = Version::default().agent(&mut rng, &life.world, &person);
    for name in all.conversations.into_iter().map(|summary| summary.id) {
        let machine = match agent.inbox(&life.journal).look(&name).await {
            Ok(machine) => machine,
            Err(err) => {
                life.world.breaks(format!("{name} cannot be looked at: {err}"));
                continue;
            }
        };
        if crate::is_shown() {
            println!("== {name}");
            let facts = life.journal.read(&name, 0).await.expect("facts").facts;
            facts.iter().for_each(|fact| println!("{:?} {:.900}", fact.life, fact.fact));
        }
        if name.contains('/') {
            life.world.count("agents");
        }
        let is_copy = name.starts_with("fork");
        let results = machine.transcript().messages().iter().flat_map(Message::results);
        let calls = machine.transcript().messages().iter().flat_map(Message::calls);
        let calls: HashMap<&str, &str> = calls.map(|call| (call.id(), call.name())).collect();
        for result in results {
            let (id, outcome, text) = (result.call_id(), result.outcome(), result.to_text());
            let tool = calls.get(id).copied().unwrap_or_default();
            let ran = life.world.ran(Some(&name), id) + life.world.ran_below(&name, id);
            let lie = match (tool, outcome) {
                (_, CallOutcome::Denied | CallOutcome::NotStarted) => ran > 0,
                ("pay", CallOutcome::Succeeded) => life.world.ran(None, id) == 0,
                ("pay", CallOutcome::Failed | CallOutcome::StoppedReading) => ran > 0,
                _ => false,
            };
            if outcome == CallOutcome::Denied {
                life.world.count("denials");
            }
            if lie && !(is_copy && outcome == CallOutcome::NotStarted && ran == 0) {
                life.world.count("LIES");
                life.world.breaks(format!(
                    "lie: {tool} {id} of {name} ran {ran} times, told as {outcome:?}: {text}"
                ));
            }
        }
        let once = seen(&agent.open(&life.journal, &name).await);
        let again = seen(&agent.open(&life.journal, &name).await);
        if once != again {
            life.world
                .breaks(format!("{name} is not the same when it is opened again: {once} {again}"));
        }
    }
}

/// What a program sees of a conversation that it has opened.
fn seen(chat: &Result<Chat, harness::Error>) -> String {
    match chat {
        Ok(chat) => format!(
            "{} {:?} {:?} {:?} {}",
            serde_json::to_string(chat.transcript()).expect("JSON"),
            chat.waiting(),
            chat.in_doubt(),
            chat.grants(),
            chat.can_resume()
        ),
        Err(err) => format!("it cannot be opened: {err}"),
    }
}

/// Judges what a watcher was told of runs that came to their ends in one process.
pub(crate) async fn judge_watched<J: Journal + Clone + 'static>(
    life: &Life<J>,
    name: &str,
    began_with: u64,
    watched: &Watched,
) {
    let watched = watched.lock().expect("unpoisoned").clone();
    let facts = life.journal.read(name, began_with).await.expect("facts").facts;
    for fact in facts {
        let Ok(Fact::CallFinished { result, .. }) = fact.fact() else { continue };
        // A call that was stopped, or of which nothing more is known, may have begun in another process.
        if !matches!(result.outcome(), CallOutcome::Succeeded | CallOutcome::Failed) {
            continue;
        }
        let told = (result.call_id().to_owned(), result.outcome(), result.to_text());
        let times = watched.iter().filter(|it| **it == told).count();
        if times != 1 {
            let near: Vec<_> = watched.iter().filter(|it| it.0 == told.0).collect();
            life.world
                .breaks(format!("a watcher of {name} is told {times} times of {told:?}: {near:?}"));
        }
    }
    for (call, outcome, text) in &watched {
        let is_told = |it: &&(String, CallOutcome, String)| it.0 == *call;
        if watched.iter().filter(is_told).count() > 1 {
            life.world.breaks(format!("a watcher of {name} is told two results of {call}"));
        }
        let all = life.journal.read(name, 0).await.expect("facts").facts;
        let is_there = all.iter().any(|fact| match fact.fact() {
            Ok(Fact::CallFinished { result, .. } | Fact::CallSettled { result, .. }) => {
                (result.call_id(), result.outcome()) == (call.as_str(), *outcome)
            }
            _ => false,
        });
        if !is_there {
            life.world.breaks(format!("a watcher of {name} is told {outcome:?} of {call}: {text}"));
        }
    }
}

/// Judges what a watcher of a manager was told.
pub(crate) async fn judge_watcher<J: Journal + Clone + 'static>(
    life: &Life<J>,
    name: &str,
    began_with: u64,
    mut watcher: ChatWatcher,
) {
    let watched = Watched::default();
    let mut runs = Vec::new();
    while let Some(numbered) = watcher.next().await {
        if !runs.contains(&numbered.run) {
            runs.push(numbered.run.clone());
        }
        // The runs before are told from their facts, which say the same again.
        if let Event::ToolResult { call, result, .. } = numbered.event.as_event() {
            let told = (call.id().to_owned(), result.outcome(), result.to_text());
            let mut watched = watched.lock().expect("unpoisoned");
            if !watched.contains(&told) {
                watched.push(told);
            }
        }
    }
    if let Some(err) = watcher.error() {
        life.world.breaks(format!("a watcher of {name} fails: {err}"));
    }
    judge_watched(life, name, began_with, &watched).await;
}
