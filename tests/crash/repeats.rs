//! What the model is told of an idempotent call that has run in a process which is gone, and that does
//! not come to its end when it is repeated.

use std::{io, path::Path, sync::Arc};

use harness::{
    CallOutcome, ToolContext,
    journal::{Fact, Head, Journal as _, MemoryJournal},
    testing::{Crashtest, Gate},
    tool::CancellationToken,
};

use crate::{
    file::FileJournal,
    races::Sleeper,
    world::{Tools, agent, makes, observe},
};

/// Makes a file that is not there yet.
fn makes_once(folder: &Path, context: &ToolContext, what: &str) -> io::Result<()> {
    let key = context.idempotency_key();
    match observe(folder).iter().any(|effect| effect.contains(key)) {
        false => makes(folder, context, what),
        true => Err(io::Error::other("it is there already")),
    }
}

#[test]
fn it_fails_when_it_is_repeated() {
    let tools = Tools { put: makes_once, ..Tools::default() };
    let test = Crashtest::new(
        |folder| async move { Ok(FileJournal::new(folder.join("chat"))) },
        move |folder| agent(folder, tools),
    );
    let report = test.send("Message 1").observe(observe).kills(90).run();
    println!("{report}");
    report.assert_clean();
}

#[tokio::test]
async fn it_is_stopped_before_it_is_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path(), Tools::default()).expect("an agent");
    let whole = MemoryJournal::new();
    agent.open(&whole, "chat").await.expect("new").send("Message 1").await.expect("an answer");
    let facts = whole.read("chat", 0).await.expect("facts").facts;
    let starts = |fact: &Fact| matches!(fact, Fact::CallStarted { call } if call == "put_1_1");
    let at = facts.iter().position(|fact| starts(&fact.fact().expect("a fact")));
    let there = &facts[..=at.expect("it starts")];
    let kept = MemoryJournal::new();
    kept.append("chat", Head::default(), there).await.expect("a new conversation");

    // That the conversation was opened again is written. The fact that the call starts again is on its
    // way when the program stops the run.
    let (gate, stop) = (Gate::new(), CancellationToken::new());
    let journal = Sleeper::new(Arc::new(kept), Some(2), &gate);
    let mut chat = agent.open(&journal, "chat").await.expect("it opens");
    let (stopped, ()) = tokio::join!(chat.resume().cancel_with(stop.clone()), async {
        gate.reached().await;
        stop.cancel();
    });
    let stopped = stopped.expect_err("it is stopped");
    let messages = stopped.transcript().messages();
    let results = messages.iter().flat_map(|message| message.results());
    let told: Vec<(&str, CallOutcome)> =
        results.map(|result| (result.call_id(), result.outcome())).collect();
    assert_eq!(told[2], ("put_1_1", CallOutcome::InDoubt), "{told:?}");
    let effects = observe(folder.path());
    assert_eq!(effects.iter().filter(|it| it.starts_with("put")).count(), 1, "{effects:?}");
}
