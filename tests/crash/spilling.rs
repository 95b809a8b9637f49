//! Processes that are killed while a large result is kept: between its chunks, before its fact is written, and while it is
//! read again.

use std::path::Path;

use harness::{
    Agent, Error, SideEffect, SideEffects, Tool, ToolError,
    context::Window,
    journal::SqliteJournal,
    testing::{Crashtest, RecordedRequest, ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;

use crate::world::{appends, observe};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// The large result of this call: several chunks.
fn rows(number: u64) -> String {
    (0..40_000).map(|row| format!("row {row} of {number} is {}\n", row * 7919 + number)).collect()
}

/// Changes something, and hands over what is too large to be sent.
fn export(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new("export", "Exports all rows.", schema, WRITE, move |context, arguments| {
        let (folder, number) = (folder.clone(), arguments["n"].as_u64().unwrap_or_default());
        Box::pin(async move {
            let what = format!("export {number}");
            appends(&folder, &context, &what).map_err(|err| ToolError::new(err.to_string()))?;
            Ok(rows(number).into())
        })
    })
}

fn agent(folder: &Path) -> Result<Agent, Error> {
    Agent::builder(ScriptedProvider::answering(answers))
        .tools([export(folder)])
        .window(Window::off())
        .build()
}

/// Exports once for each message, and reads a row of what was kept.
fn answers(request: &RecordedRequest) -> ScriptedReply {
    let last = request.last_text();
    if let Some(number) = last.strip_prefix("Message ") {
        let arguments = json!({ "n": number.parse::<u64>().unwrap_or_default() });
        return reply().call_with_id(format!("export_{number}"), "export", arguments);
    }
    let results = request.messages().iter().flat_map(|message| message.results());
    let Some(result) = results.last() else { return reply().text("Nothing was asked.") };
    let (id, text) = (result.call_id().to_owned(), result.to_text());
    if let Some(number) = id.strip_prefix("export_") {
        let name = text.split("is kept as `").nth(1).and_then(|rest| rest.split('`').next());
        // A call that was cut off has no whole result.
        let Some(name) = name else { return reply().text("It was cut off.") };
        let search = format!("row 31999 of {number} is");
        return reply().call_with_id(
            format!("read_{number}"),
            "read_result",
            json!({"name": name, "search": search}),
        );
    }
    if let Some(number) = id.strip_prefix("read_").and_then(|number| number.parse::<u64>().ok()) {
        let row = format!("row 31999 of {number} is {}", 31_999 * 7919 + number);
        if !text.contains(&row) {
            // Nobody comes to the end then.
            return reply().text("What was kept is lost.").cut();
        }
    }
    reply().text("All of it is done.")
}

#[test]
fn with_results_that_are_kept_beside_the_facts() {
    let test = Crashtest::new(|folder| SqliteJournal::open(folder.join("chats.db")), agent);
    let test = (1..=4).fold(test, |test, number| test.send(format!("Message {number}")));
    let report = test.observe(observe).kills(24).run();
    println!("{report}");
    report.assert_clean();
}
