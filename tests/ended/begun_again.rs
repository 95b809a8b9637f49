//! Calls that had begun in a process that is gone, and whose next start cannot be written.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Permissions, SideEffect, SideEffects,
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, Left, agent, copy_of, tool};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// An agent whose agent has a call that may run again. What the journal holds is kept while it runs.
fn lead(left: &Left, ran: &Arc<AtomicUsize>, permissions: Permissions) -> Agent {
    let calls = |name: &'static str| {
        ScriptedProvider::answering(move |request| match request.results().next() {
            None => reply().call_with_id("c", name, json!({"task": "Put it."})),
            Some(result) => reply().text(format!("{:?}", result.outcome())),
        })
    };
    let (left, ran) = (left.clone(), Arc::clone(ran));
    let put = tool("put", WRITE, move |_| {
        ran.fetch_add(1, Ordering::Relaxed);
        left.keep();
        async { Ok("put".to_owned()) }
    });
    let below = agent(calls("put")).tools([put.idempotent()]).permissions(permissions);
    let below = below.build().expect("an agent").as_tool("ask", "Puts.");
    agent(calls("ask")).tools([below]).build().expect("an agent")
}

#[tokio::test]
async fn a_call_that_may_have_run_and_did_not_begin_again_is_not_told_as_denied() {
    let (left, ran) = (Left::default(), Arc::default());
    let whole = lead(&left, &ran, Permissions::allow_all());
    whole.open(&left.journal, CHAT).await.expect("opened").send("Go.").await.expect("an answer");
    let killed = left.take().swap_remove(0);
    let (mut failed, denies) = (0, Permissions::allow_all().deny("put", "not any more"));
    for number in 0..8 {
        let journal = FaultyJournal::new(copy_of(&killed).await);
        journal.fail(JournalCall::Append, number, JournalFault::FailBefore);
        let before = ran.load(Ordering::Relaxed);
        let mut chat = whole.open(&journal, CHAT).await.expect("opened");
        let ended = chat.resume().await;
        drop(chat);
        if ended.is_ok() || ran.load(Ordering::Relaxed) > before {
            continue;
        }
        failed += 1;
        // The next version of the program denies the call, which may have run.
        let next = lead(&left, &ran, denies.clone());
        let mut chat = next.open(&journal, CHAT).await.expect("opened");
        let said = chat.resume().await.map(|reply| reply.text().to_owned());
        let below = next.inbox(&journal).look("chat/c").await.expect("facts");
        let results = below.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
        assert!(
            outcomes.iter().all(|it| *it == CallOutcome::InDoubt),
            "append {number}: {outcomes:?}, {said:?}"
        );
    }
    assert!(failed > 0, "no start was refused");
}
