//! Agents that a function of a tool runs in chats of their own: they are admitted like all others, and one that is not
//! wanted any more leaves nothing behind.

use std::{
    future::IntoFuture as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::poll;
use harness::{
    Agent, Guardrails, SideEffect, SideEffects,
    journal::{Fact, Journal as _, MemoryJournal},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, agent, tool};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// An agent that answers, with a tool that has these side effects.
fn worker(effects: SideEffects) -> Agent {
    let works = tool("work", effects, |_| async { Ok("worked".to_owned()) });
    let model = ScriptedProvider::answering(|_| reply().text("It is done."));
    agent(model).tools([works]).build().expect("an agent")
}

/// What a run of this agent says that its function was told, and how many facts say that an agent began.
async fn told(worker: Agent, effects: SideEffects, rails: Guardrails) -> (String, usize) {
    let ask = tool("ask", effects, move |context| {
        let worker = worker.clone();
        async move {
            let mut chat = worker.chat();
            let mut said = Vec::new();
            for _ in 0..2 {
                said.push(match chat.send("Go.").in_call(&context).await {
                    Ok(reply) => reply.text().to_owned(),
                    Err(stopped) => stopped.error().expect("an error").to_string(),
                });
            }
            Ok(said.join(" | "))
        }
    });
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("ask", json!({})),
        Some(result) => reply().text(result.to_text()),
    });
    let lead = agent(model).tools([ask]).guardrails(rails).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let said = chat.send("Go.").await.expect("an answer").text().to_owned();
    (said, unkept(&journal).await)
}

async fn unkept(journal: &MemoryJournal) -> usize {
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    let is_one = |fact: &Fact| matches!(fact, Fact::UnkeptAgentStarted { .. });
    facts.iter().filter(|it| is_one(&it.fact().expect("a fact"))).count()
}

#[tokio::test]
async fn an_agent_in_a_chat_of_its_own_is_admitted_like_any_other() {
    let done = "It is done.";
    let (said, begun) = told(worker(READ), READ, Guardrails::default()).await;
    assert_eq!((said, begun), (format!("{done} | {done}"), 1));
    let (said, begun) = told(worker(WRITE), READ, Guardrails::default()).await;
    assert_eq!(said.matches("the agent did not run. Declare all of them").count(), 2, "{said}");
    assert_eq!(begun, 0, "no agent began");
    let (said, begun) = told(worker(READ), READ, Guardrails::default().agent_depth(0)).await;
    assert_eq!(said.matches("`Guardrails::agent_depth` allows more").count(), 2, "{said}");
    assert_eq!(begun, 0);
    let (said, begun) = told(worker(READ), READ, Guardrails::default().agents(1)).await;
    assert!(said.starts_with(done) && said.ends_with("`Guardrails::agents` allows more"), "{said}");
    assert_eq!(begun, 1);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_began_early_and_gives_up_its_agent_does_not_end_the_run() {
    let worker = worker(READ);
    let ask = tool("ask", READ, move |context| {
        let worker = worker.clone();
        async move {
            let mut chat = worker.chat();
            let mut run = chat.send("Go.").in_call(&context).into_future();
            assert!(poll!(&mut run).is_pending(), "it waits until the answer is complete");
            drop(run);
            Ok("given up".to_owned())
        }
    });
    let asked = AtomicUsize::new(0);
    let model =
        ScriptedProvider::answering(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => {
                let call = reply().begin_call("c", "ask").arguments("{}").end_call();
                call.pause(Duration::from_secs(1))
            }
            _ => reply().text(request.results().map(|it| it.to_text()).collect::<String>()),
        });
    let lead = agent(model).tools([ask]).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.send("Go.").await.expect("an answer").text(), "given up");
    assert_eq!(unkept(&journal).await, 0, "no agent began");
}
