//! A model that makes the same call again and again, with another result each time.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{
    Agent, Outcome, Tool,
    journal::{LimitKind, MemoryJournal},
    policy::Guardrails,
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool::{SideEffect, SideEffects},
};
use serde_json::json;

/// A tool whose results are all different if they say the number of the call.
fn tool(name: &'static str, says: fn(usize) -> String) -> Tool {
    let calls = AtomicUsize::new(0);
    let schema = json!({"type": "object", "properties": {}});
    Tool::new(name, "Does it.", schema, SideEffects::of(&[SideEffect::Write]), move |_, _| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(says(call).into()) })
    })
}

/// A model that does this in each of so many turns.
fn model(
    turns: usize,
    does: impl Fn(usize) -> ScriptedReply + Send + Sync + 'static,
) -> ScriptedProvider {
    ScriptedProvider::answering(move |request: &RecordedRequest| {
        let turn = request.messages().len() / 2;
        if turn >= turns { reply().text("Done.") } else { does(turn) }
    })
}

fn agent(model: &ScriptedProvider) -> Agent {
    let tools =
        [tool("look", |call| format!("page {call}")), tool("press", |_| "pressed".to_owned())];
    let agent = Agent::builder(model.clone()).tools(tools);
    agent.guardrails(Guardrails::default().turns(100)).build().expect("an agent")
}

#[tokio::test]
async fn calls_whose_results_are_new_are_no_repetitions_and_nor_are_those_beside_them() {
    type Does = fn(usize) -> ScriptedReply;
    let ways: [(&str, Does); 3] = [
        ("alone", |_| reply().call("look", json!({}))),
        ("by turns", |turn| reply().call(["press", "look"][turn % 2], json!({}))),
        ("at once", |_| reply().call("press", json!({})).call("look", json!({}))),
    ];
    for (way, does) in ways {
        let model = model(40, does);
        let reply =
            agent(&model).run("Read it.").await.unwrap_or_else(|err| panic!("{way}: {err}"));
        assert_eq!(reply.turns(), 41, "{way}");
        let requests = model.requests();
        let results = requests.last().expect("a request").messages();
        let mut results = results.iter().flat_map(|message| message.results());
        assert!(!results.any(|result| result.to_text().contains("Note")), "{way}");
    }
    // Where nothing is new, it is a loop.
    let circle = model(40, |_| reply().call("press", json!({})));
    let stopped = agent(&circle).run("Read it.").await.expect_err("a loop");
    assert_eq!((stopped.outcome(), stopped.turns()), (Outcome::Limit(LimitKind::Repetitions), 3));
}

#[tokio::test]
async fn the_count_of_repetitions_goes_on_in_the_next_process() {
    let journal = MemoryJournal::new();
    let presses = |_| reply().call("press", json!({}));
    let first = model(40, move |turn| if turn < 2 { presses(turn) } else { reply().stall() });
    let mut chat = agent(&first).open(&journal, "17").await.expect("open");
    let mut run = Box::pin(chat.send("Press.").into_future());
    let asked = async {
        while first.requests().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut run => panic!("it stalls"),
        () = asked => {}
    }
    drop(run);
    chat.save().await.expect("saved");
    drop(chat);
    let mut chat = agent(&model(40, presses)).open(&journal, "17").await.expect("open");
    let stopped = chat.resume().await.expect_err("a loop");
    let calls = chat.transcript().messages().iter().flat_map(|message| message.calls()).count();
    assert_eq!((stopped.outcome(), calls), (Outcome::Limit(LimitKind::Repetitions), 3));
}
