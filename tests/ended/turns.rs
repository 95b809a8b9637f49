//! A conversation of many facts is read in pieces: other tasks of the same thread go on meanwhile.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::StreamExt as _;
use harness::{
    Agent, Message,
    agent::Chats,
    journal::{Envelope, Fact, Head, Journal, MemoryJournal},
    provider::StopReason,
    testing::{ScriptedProvider, reply},
};

use crate::{CHAT, agent};

/// How many runs the conversation has, of two facts each.
const RUNS: usize = 1_000;

fn speaker() -> Agent {
    agent(ScriptedProvider::answering(|_| reply().text("Hello."))).build().expect("an agent")
}

/// A conversation of many runs, or of one long run if its message is said only once.
fn facts(is_one_run: bool) -> Vec<Envelope> {
    let said =
        |n: usize| Fact::UserSaid { message: Message::user(format!("Hello {n}")), limits: None };
    let steered = |n: usize| Fact::Steered { message: Message::user(format!("Hello {n}")) };
    let replied = || Fact::ModelReplied {
        message: Some(Message::assistant([harness::Block::text("Hello.")])),
        stop: StopReason::Complete,
        usage: harness::Usage::default(),
        provider: "scripted".to_owned(),
        model: "scripted".to_owned(),
        asked_model: None,
    };
    let facts = (0..RUNS).flat_map(|n| {
        let begins = if n > 0 && is_one_run { steered(n) } else { said(n) };
        [begins, replied()]
    });
    facts.map(|fact| Envelope::of(&fact, 0).expect("JSON")).collect()
}

async fn journal_of(is_one_run: bool) -> MemoryJournal {
    let journal = MemoryJournal::new();
    journal.append(CHAT, Head::default(), &facts(is_one_run)).await.expect("appended");
    journal
}

/// How often another task of the thread had its turn meanwhile.
async fn turns_during<T>(work: impl Future<Output = T>) -> (T, usize) {
    let turns = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counts.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let done = work.await;
    other.abort();
    (done, turns.load(Ordering::Relaxed))
}

/// As often as this at least: once for each hundred facts.
const LEAST: usize = RUNS * 2 / 100;

#[tokio::test]
async fn a_look_at_a_long_conversation_lets_other_tasks_go_on() {
    let (journal, agent) = (journal_of(false).await, speaker());
    let inbox = agent.inbox(&journal);
    let (stands, turns) = turns_during(inbox.look(CHAT)).await;
    assert_eq!(stands.expect("facts that follow").transcript().messages().len(), RUNS * 2);
    assert!(turns >= LEAST, "{turns}");
    let (waiting, turns) = turns_during(inbox.waiting(CHAT)).await;
    assert!(waiting.expect("facts that follow").is_empty());
    assert!(turns >= LEAST, "{turns}");
}

#[tokio::test]
async fn a_watcher_that_looks_for_the_last_run_lets_other_tasks_go_on() {
    let (journal, agent) = (journal_of(true).await, speaker());
    let chats = Chats::new(&agent, &journal);
    let (watcher, turns) = turns_during(chats.watch(CHAT)).await;
    let mut watcher = watcher.expect("facts that follow");
    assert!(watcher.next().await.is_some());
    // The end is looked for, and then the facts are folded.
    assert!(turns >= 2 * LEAST, "{turns}");
}

#[tokio::test]
async fn opening_and_forking_let_other_tasks_go_on() {
    let (journal, agent) = (journal_of(false).await, speaker());
    let (chat, turns) = turns_during(agent.open(&journal, CHAT)).await;
    assert!(turns >= LEAST, "{turns}");
    let mut chat = chat.expect("opened");
    let (fork, turns) = turns_during(chat.fork("fork", RUNS as u64)).await;
    assert_eq!(fork.expect("a fork").transcript().messages().len(), RUNS);
    // The facts are looked at to find where to part, and then read.
    assert!(turns > LEAST, "{turns}");
}

#[tokio::test]
async fn an_action_of_an_engine_lets_other_tasks_go_on() {
    let agent = speaker();
    let steps = agent.steps(CHAT, facts(false)).expect("facts that follow");
    let (said, turns) = turns_during(steps.say(Message::user("Hello?"))).await;
    assert_eq!(said.expect("facts").len(), 1);
    assert!(turns >= LEAST, "{turns}");
}
