//! Denials of calls of agents whose process ends before their callers have learned of them.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Outcome, Permissions, SideEffect, SideEffects, Tool,
    journal::{Head, Journal as _, Listing, MemoryJournal},
    policy::Question,
    testing::{ScriptedProvider, reply},
};
use serde_json::{Value, json};

use crate::kept::CHAT;

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
            let denies = |question: Question| async move {
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

/// What a process leaves that is killed when this agent has ended and its callers have not learned of it.
async fn killed_after(journal: &MemoryJournal, agent: &str) -> MemoryJournal {
    let left = MemoryJournal::new();
    let page = journal.list(&Listing::new()).await.expect("a page");
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
async fn an_agent_that_a_denial_has_ended_does_not_go_on_when_its_call_runs_again() {
    for depth in [1, 2] {
        let asked = Asked::default();
        let lead = lead(depth, &asked);
        let journal = MemoryJournal::new();
        let mut chat = lead.open(&journal, CHAT).await.expect("a new conversation");
        let denied = chat.send("Go.").await.expect_err("it is denied");
        assert_eq!(denied.outcome(), Outcome::Denied);
        drop(chat);
        let page = journal.list(&Listing::new()).await.expect("a page");
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
