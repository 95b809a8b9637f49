//! What was withdrawn stays withdrawn in copies, and what may not run again is written before it begins.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, SideEffect, SideEffects,
    journal::MemoryJournal,
    policy::ApprovalRequest,
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, agent, tool};

const MUTATE: SideEffects = SideEffects::of(&[SideEffect::Mutate]);
const LOOKS_UP: SideEffects = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);

#[tokio::test]
async fn an_always_that_was_withdrawn_is_withdrawn_in_a_fork_of_what_was_before() {
    let asks = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("pay", json!({})),
        Some(_) => reply().text("Paid."),
    });
    let pay = tool("pay", MUTATE, |_| async { Ok("paid".to_owned()) });
    let always = |question: ApprovalRequest| std::future::ready(question.always());
    let agent = Agent::builder(asks).tools([pay]).approver(always).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    chat.send("Pay.").await.expect("an answer");
    let before = chat.facts();
    let grant = chat.grants()[0].clone();
    let fork = chat.fork("with", before).await.expect("a fork");
    assert_eq!(fork.grants(), std::slice::from_ref(&grant), "nobody has withdrawn it yet");
    assert!(chat.revoke(&grant));
    let fork = chat.fork("without", before).await.expect("a fork");
    assert_eq!(fork.grants(), []);
    drop(fork);
    let again = agent.open(&journal, "without").await.expect("opened");
    assert_eq!(again.grants(), []);
}

#[tokio::test]
async fn a_look_up_that_may_not_run_again_begins_after_its_start_is_written() {
    for (effects, runs) in [(LOOKS_UP, 0), (SideEffects::of(&[SideEffect::Read]), 1)] {
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let fetch = tool("fetch", effects, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok("found".to_owned()) }
        });
        let model = ScriptedProvider::answering(|request| match request.results().next() {
            None => reply().call("fetch", json!({})),
            Some(_) => reply().text("Found."),
        });
        let agent = agent(model).tools([fetch]).early_start(false).build().expect("an agent");
        let journal = FaultyJournal::new(MemoryJournal::new());
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        // The first append has the message, and the next one the answer with what is decided of its call.
        for number in 1..20 {
            journal.fail(JournalCall::Append, number, JournalFault::FailBefore);
        }
        let stopped = chat.send("Look.").await.expect_err("the journal fails");
        assert!(stopped.error().is_some(), "{stopped}");
        assert_eq!(ran.load(Ordering::Relaxed), runs, "{effects}");
        let results = chat.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
        assert!(runs == 1 || outcomes == [CallOutcome::NotStarted], "{outcomes:?}");
    }
}
