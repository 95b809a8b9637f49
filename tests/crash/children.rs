//! A caller with two agents whose process is killed at any instant, at any depth.

use std::path::Path;

use harness::{
    Agent, Error,
    journal::SqliteJournal,
    testing::{Crashtest, RecordedRequest, ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;

use crate::world::{Tools, agent, observe};

/// An agent that lets two others work, of which each looks, pays, puts and books.
fn lead(folder: &Path) -> Result<Agent, Error> {
    let worker = agent(folder, Tools::default())?;
    let tools = [worker.as_tool("first", "Works."), worker.as_tool("second", "Works.")];
    Agent::builder(ScriptedProvider::answering(answers)).tools(tools).build()
}

/// Answers by what it reads, so that it goes on wherever a conversation is.
fn answers(request: &RecordedRequest) -> ScriptedReply {
    let messages: Vec<_> = request.messages().iter().collect();
    let from = messages.iter().rposition(|message| message.text().starts_with("Message"));
    let from = from.unwrap_or(0);
    let said = messages[from].text().split(' ').nth(1).map_or(0, |n| n.parse().unwrap_or(0));
    let call = |it: ScriptedReply, name: &str, n: usize| {
        let task = json!({"task": format!("Message {}", said * 10 + n)});
        it.call_with_id(format!("{name}_{said}"), name, task)
    };
    match messages[from..].iter().any(|it| it.calls().next().is_some()) {
        false => call(call(reply(), "first", 1), "second", 2),
        true => reply().text(format!("All of {said} is done.")),
    }
}

#[test]
fn a_caller_with_two_agents_loses_nothing_and_repeats_nothing() {
    let report = Crashtest::new(|folder| SqliteJournal::open(folder.join("chats.db")), lead)
        .send("Message 1")
        .observe(observe)
        .kills(40)
        .run();
    println!("{report}");
    report.assert_clean();
}
