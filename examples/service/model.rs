//! The agent of the service. Without a key of a vendor, a scripted model answers.

use std::time::Duration;

use harness::{
    Agent, ToolContext, ToolError,
    message::Arguments,
    models::{Models, Price},
    policy::{ApprovalRequest, Guardrails},
    provider_from_env,
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool,
    tool::{Preview, Review},
    tools,
    trace::Trace,
};
use serde_json::json;

/// An agent, and why its model is a script if it is one.
pub(crate) fn agent(trace: Trace) -> anyhow::Result<(Agent, Option<String>)> {
    // A made-up price, so that the page has a cost to show.
    let models = Models::default().with("script", Price::new(1.0, 5.0));
    // A call that needs a person waits until a page sends the answer, if need be in another life of this program.
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let given = provider_from_env();
    let why = given.as_ref().err().map(ToString::to_string);
    let script = ScriptedProvider::answering(answer).with_name("script").with_model("script");
    let provider = given.unwrap_or_else(|_| Box::new(script));
    let agent = Agent::builder(provider)
        .tools(tools![weather, remove_notes, book_table])
        .approver(later)
        .guardrails(Guardrails::default().time(crate::limits::LONGEST_RUN))
        .models(models)
        .trace(trace)
        .build()?;
    Ok((agent, why))
}

/// Looks up the weather.
#[tool(side_effects = "read")]
fn weather(
    /** The city */
    city: String,
) -> String {
    format!("{city}: 7 degrees, rain")
}

/// Removes all notes.
#[tool(side_effects = "mutate", review = what_is_removed)]
fn remove_notes() -> String {
    "The notes are removed.".to_owned()
}

fn what_is_removed(_: &Arguments) -> Review {
    let diff = "--- notes.md\n+++ notes.md\n@@ -1,2 +0,0 @@\n-Call Ada on Monday.\n-Buy milk.\n";
    Review::ask("It removes all notes.").with_preview(Preview::Diff(diff.to_owned()))
}

/// Books a table.
#[tool(side_effects = "read")]
fn book_table(context: &ToolContext) -> Result<String, ToolError> {
    let form = json!({"type": "object", "required": ["day", "seats"], "properties": {
        "day": {"type": "string", "enum": ["Friday", "Saturday"], "title": "Day"},
        "seats": {"type": "integer", "minimum": 1, "title": "Seats"},
        "outside": {"type": "boolean", "title": "Outside"},
    }});
    match context.answered() {
        Some(answered) if answered.answer.is_null() => Ok("No table is booked.".to_owned()),
        Some(answered) => Ok(format!("A table is booked: {}", answered.answer)),
        None => Err(ToolError::asks("When, and for how many?", json!(null)).with_form(form)),
    }
}

/// What the scripted model says.
fn answer(request: &RecordedRequest) -> ScriptedReply {
    let messages = request.messages();
    let tokens = request.messages().iter().map(|message| message.size() as u64 / 4).sum::<u64>();
    let reply = || reply().tokens(tokens + 100, 20);
    let last = messages.last();
    let results: Vec<String> =
        last.iter().flat_map(|message| message.results()).map(|it| it.to_text()).collect();
    if !results.is_empty() {
        return reply().text(format!("I have it. {}", results.join(" ")));
    }
    let said = last.map(harness::Message::text).unwrap_or_default();
    let call = format!("call-{}", messages.iter().count());
    let (short, long) = (Duration::from_millis(60), Duration::from_millis(150));
    if let Some((_, city)) = said.split_once("weather in ") {
        let city = json!(city.trim_end_matches(['?', '.'])).to_string();
        let looks = reply().text("I look.").begin_call(call, "weather").arguments("{\"city\": ");
        return looks.pause(short).arguments(city).pause(short).arguments("}").end_call();
    }
    if let Some(to) = said.strip_prefix("count to ").and_then(|to| to.trim().parse::<u32>().ok()) {
        let numbers = (1..=to.min(1000)).map(|number| format!("{number} "));
        return numbers.fold(reply(), |reply, number| reply.text_in([number]).pause(long));
    }
    match said.as_str() {
        "remove the notes" => reply().begin_call(call, "remove_notes").arguments("{}").end_call(),
        "remove the notes twice" => {
            let first = reply().call_with_id(format!("{call}a"), "remove_notes", json!({}));
            first.call_with_id(format!("{call}b"), "remove_notes", json!({}))
        }
        "book a table" => reply().begin_call(call, "book_table").arguments("{}").end_call(),
        _ => reply().text(format!(
            "I know the **weather in** a city, **count to** a number, **book a table** and **remove the notes**. You said:\n\n{said}"
        )),
    }
}
