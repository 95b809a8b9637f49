//! Processes that are killed while what is sent is made smaller: while a summary is asked for, before its fact is written
//! and after it.

use std::path::Path;

use futures_util::stream;
use harness::{
    Agent, Error, Provider, SideEffect, SideEffects, StreamEvent, Usage,
    context::Window,
    journal::SqliteJournal,
    message::VendorData,
    provider::{EventStream, Request, StopReason, VendorPart},
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

/// A model whose vendor makes summaries of its own.
struct WithSummaries(ScriptedProvider);

impl Provider for WithSummaries {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn has_vendor_summaries(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let request = request.for_model(self.name(), self.model()).into_owned();
        if !request.is_summary_request() {
            return self.0.stream(request);
        }
        crash_point("while the vendor is asked for a summary");
        let summary = format!(r#"{{"summary":{}}}"#, request.messages().len());
        let data = VendorData::new("own", summary).expect("JSON");
        let usage = Usage { input: Some(9), output: Some(3), ..Usage::default() };
        Box::pin(stream::iter([
            Ok(StreamEvent::Vendor { block: 0, part: VendorPart::Opaque, data }),
            Ok(StreamEvent::Completed { stop: StopReason::Paused, usage: Box::new(usage) }),
        ]))
    }
}

fn agent_with_summaries(folder: &Path) -> Result<Agent, Error> {
    let tools = [tool("look", READ, folder, reads), tool("pay", WRITE, folder, appends)];
    let window = Window::new().tokens(3_000).clear_at(20).compact_at(40).vendor_summaries();
    let model = WithSummaries(ScriptedProvider::answering(answers));
    Agent::builder(model).tools(tools).window(window).build()
}

fn survives(agent: fn(&Path) -> Result<Agent, Error>) {
    let test = Crashtest::new(|folder| SqliteJournal::open(folder.join("chats.db")), agent);
    let test = (1..=5).fold(test, |test, number| test.send(format!("Message {number}")));
    let report = test.observe(observe).kills(24).run();
    println!("{report}");
    report.assert_clean();
}

#[test]
fn with_a_window_that_gets_full() {
    survives(agent);
}

#[test]
fn with_summaries_of_the_vendors_own() {
    survives(agent_with_summaries);
}
