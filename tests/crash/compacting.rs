//! Processes that are killed while what is sent is made smaller: while a summary is asked for, before its fact is written
//! and after it.

use std::path::Path;

use harness::{
    Agent, Error, SideEffect, SideEffects,
    context::Window,
    journal::SqliteJournal,
    testing::{Crashtest, RecordedRequest, ScriptedProvider, ScriptedReply, crash_point, reply},
};
use serde_json::json;

use crate::world::{appends, observe, reads, tool};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// An agent whose window gets full with nearly each message.
fn agent(folder: &Path) -> Result<Agent, Error> {
    let tools = [tool("look", READ, folder, reads), tool("pay", WRITE, folder, appends)];
    let window = Window::new().tokens(3_000).clear_at(20).compact_at(40);
    Agent::builder(ScriptedProvider::answering(answers)).tools(tools).window(window).build()
}

/// Looks and pays once for each message, and answers at length.
fn answers(request: &RecordedRequest) -> ScriptedReply {
    let last = request.last_text();
    if last.contains("Sum it up now") {
        crash_point("while a summary is asked for");
        let headings = ["Goals", "Decisions", "Open work", "Names and ids", "Tried and failed"];
        return reply().text(headings.map(|heading| format!("## {heading}\n- none\n")).concat());
    }
    match last.strip_prefix("Message ").and_then(|number| number.parse::<u32>().ok()) {
        Some(said) => reply()
            .call_with_id(format!("look_{said}"), "look", json!({ "n": said }))
            .call_with_id(format!("pay_{said}"), "pay", json!({ "n": said })),
        None => reply().text("All of it is done. ".repeat(80)),
    }
}

#[test]
fn with_a_window_that_gets_full() {
    let test = Crashtest::new(|folder| SqliteJournal::open(folder.join("chats.db")), agent);
    let test = (1..=5).fold(test, |test, number| test.send(format!("Message {number}")));
    let report = test.observe(observe).kills(60).run();
    println!("{report}");
    report.assert_clean();
}
