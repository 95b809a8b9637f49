//! Denials of calls of agents whose process ends at any moment after them.

use std::{
    future::{Future, IntoFuture as _, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use harness::{
    Agent, Outcome, Permissions, SideEffect, SideEffects, Tool,
    journal::{ConversationQuery, Envelope, Head, Journal, JournalFuture, MemoryJournal},
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::{Value, json};

use crate::kept::{CHAT, hands_on};

/// A journal that takes time for each append, so that a process can end before it and after it.
#[derive(Clone, Default)]
struct Slow(MemoryJournal);

impl Journal for Slow {
    hands_on!(0: read hold rest);

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let appended = self.0.append(id, after, facts).await;
            tokio::task::yield_now().await;
            appended
        })
    }
}

/// Which models were asked after a result.
type Asked = Arc<Mutex<Vec<&'static str>>>;

/// Calls this tool, and goes on after its result.
fn calls(who: &'static str, tool: &'static str, with: Value, asked: &Asked) -> ScriptedProvider {
    let asked = Arc::clone(asked);
    ScriptedProvider::answering(move |request| match request.results().next() {
        None => reply().call(tool, with.clone()),
        Some(_) => {
            asked.lock().expect("unpoisoned").push(who);
            reply().text("I went on.")
        }
    })
}

/// An agent with this many agents below it. The last one calls a tool that is denied, which ends all of them.
fn lead(depth: usize, asked: &Asked) -> Agent {
    let mutate = SideEffects::of(&[SideEffect::Mutate]);
    let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), mutate, |_, _| {
        Box::pin(async { Ok("Paid.".into()) })
    });
    let payer = Agent::builder(calls("payer", "pay", json!({}), asked)).tools([pay]);
    let mut agent = payer.build().expect("an agent");
    for level in 1..=depth {
        let model = calls("caller", "agent", json!({"task": "Go."}), asked);
        let mut builder = Agent::builder(model).tools([agent.as_tool("agent", "Works.")]);
        if level == depth {
            let denies = |question: ApprovalRequest| async move {
                tokio::task::yield_now().await;
                question.no("No.")
            };
            let permissions = Permissions::default().stop_on_denial();
            builder = builder.permissions(permissions).approver(denies);
        }
        agent = builder.build().expect("an agent");
    }
    agent
}

/// The output of a future that is dropped after it was polled so often.
async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let (mut future, mut count) = (pin!(future), 0);
    poll_fn(move |context| {
        count += 1;
        if count > times {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// What a process leaves that is killed when this agent has ended and its callers have not learned of it.
async fn killed_after(journal: &MemoryJournal, agent: &str) -> MemoryJournal {
    let left = MemoryJournal::new();
    let page = journal.list(&ConversationQuery::new()).await.expect("a page");
    for summary in page.conversations {
        let mut written = journal.read(&summary.id, 0).await.expect("facts").facts;
        if summary.id != agent && agent.starts_with(&summary.id) {
            let last = written.iter().rposition(|it| it.fact.contains("call_started"));
            written.truncate(last.expect("the call") + 1);
        }
        let start = Head::default();
        left.append(&summary.id, start, &written).await.expect("written");
        left.describe(&summary.id, &summary.metadata).await.expect("described");
    }
    left
}

#[tokio::test]
async fn a_denial_below_ends_all_runs_also_if_the_process_ends_after_it() {
    for depth in [1, 2] {
        for times in 1.. {
            let asked = Asked::default();
            let lead = lead(depth, &asked);
            let journal = Slow::default();
            let mut chat = lead.open(&journal, CHAT).await.expect("a new conversation");
            let ended = polled(times, chat.send("Go.").into_future()).await;
            drop(chat);
            // A run that has ended goes on only because the user wants it.
            let facts = journal.read(CHAT, 0).await.expect("facts").facts;
            let is_over = facts.last().is_some_and(|last| last.fact.contains("interrupted"));
            let is_whole = ended.is_some() || is_over;
            let ended = match ended {
                Some(ended) => Some(ended),
                None if is_over => None,
                None => {
                    let mut chat = lead.open(&journal, CHAT).await.expect("it opens");
                    match chat.can_resume() {
                        true => Some(chat.resume().await),
                        false => None,
                    }
                }
            };
            if let Some(ended) = ended {
                let outcome = ended.expect_err("it is denied").outcome();
                assert_eq!(outcome, Outcome::Denied, "{depth} deep, polled {times} times");
            }
            assert!(asked.lock().expect("unpoisoned").is_empty(), "{depth}, {times}");
            if is_whole {
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_agent_that_a_denial_has_ended_does_not_go_on_when_its_call_runs_again() {
    for depth in [1, 2] {
        let asked = Asked::default();
        let lead = lead(depth, &asked);
        let journal = MemoryJournal::new();
        let mut chat = lead.open(&journal, CHAT).await.expect("a new conversation");
        let denied = chat.send("Go.").await.expect_err("it is denied");
        assert_eq!(denied.outcome(), Outcome::Denied);
        drop(chat);
        let page = journal.list(&ConversationQuery::new()).await.expect("a page");
        let agents = page.conversations.into_iter().filter(|it| it.id != CHAT);
        for agent in agents {
            let left = killed_after(&journal, &agent.id).await;
            let mut chat = lead.open(&left, CHAT).await.expect("it opens");
            let denied = chat.resume().await.expect_err("it is denied");
            assert_eq!(denied.outcome(), Outcome::Denied, "{depth} deep, after {}", agent.id);
            assert!(asked.lock().expect("unpoisoned").is_empty(), "{depth}, after {}", agent.id);
        }
    }
}
