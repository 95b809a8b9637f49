//! Shows traces that runs have written: `cargo run --example trace -- runs.jsonl` prints the runs as text; with `--html`
//! it prints a page: `cargo run --example trace -- runs.jsonl --html > runs.html`. With `--compare` it shows the
//! first fact in which two traces differ, as text or with `--html` as a page with both.
//!
//! Without a file it records a run with a scripted model, and shows that one. Exit codes: 0 shown, 1 a
//! file cannot be read or holds no event, 2 wrong arguments.

mod program;

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result};
use harness::{
    Agent, SideEffect, SideEffects, Tool,
    policy::visible,
    testing::{ScriptedProvider, reply},
    tool::ToolError,
    trace::{self, TraceEvent},
};
use serde_json::json;

const USAGE: &str = "\
trace [FILE..] [--html]: shows traces that runs have written, as text or as a page
trace --compare FILE FILE [--html]: shows the first fact in which two traces differ
A FILE has JSON lines, as `harness::trace::Trace::to_file` writes them. The text shows each turn, call and result
with its time; --html prints an HTML page in which each of them can be opened: trace FILE --html > page.html
Without a FILE it records a run with a scripted model and shows that one; it needs no key.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let (options, files): (Vec<String>, Vec<String>) =
        program::arguments()?.into_iter().partition(|argument| argument.starts_with('-'));
    if let Some(option) =
        options.iter().find(|option| !["--html", "--compare"].contains(&&***option))
    {
        let text = format!(
            "`{option}` is unknown; expected `trace [FILE..] [--html]` or `trace --compare FILE FILE [--html]`"
        );
        return Err(program::wrong(text));
    }
    let has = |option: &str| options.iter().any(|given| given == option);
    let mut traces = Vec::new();
    for file in &files {
        let lines = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        let read = trace::read(&lines).with_context(|| format!("{file} is not a trace"))?;
        anyhow::ensure!(!read.is_empty(), "{file} holds no event: expected a trace as JSON lines");
        traces.push((file.as_str(), read));
    }
    let shown = match (has("--compare"), traces.as_slice()) {
        (true, [(name, left), (other, right)]) if has("--html") => {
            trace::comparison_page((name, left), (other, right))
        }
        (true, [(name, left), (other, right)]) => {
            trace::comparison_text((name, left), (other, right))
        }
        (true, _) => return Err(program::wrong("`--compare` needs two FILEs")),
        (false, _) => {
            if traces.is_empty() {
                traces.push(("", recorded().await?));
            }
            let events: Vec<TraceEvent> = traces.into_iter().flat_map(|(_, read)| read).collect();
            if has("--html") { trace::page(&events) } else { trace::pretty(&events) }
        }
    };
    let mut out = io::stdout();
    match has("--html") && !out.is_terminal() {
        // A file gets the page as it is.
        true => write!(out, "{shown}")?,
        false => write!(out, "{}", visible(&shown))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Records a run whose calls start while the model is still answering.
async fn recorded() -> Result<Vec<TraceEvent>> {
    let wait = Duration::from_millis;
    let model = ScriptedProvider::new([
        reply()
            .pause(wait(120))
            .text("Let me look.")
            .call("search_orders", json!({"email": "a@b.com"}))
            .call("read_policy", json!({"topic": "refunds"}))
            .call("track_parcel", json!({"order": 1044}))
            .pause(wait(150))
            .call("note", json!({"text": "asked about refunds", "api_token": "t-123456789"}))
            .tokens(820, 64),
        reply()
            .pause(wait(60))
            .text("I found two orders, and both can still be returned.")
            .tokens(1010, 31),
    ]);
    let tools = [
        tool("search_orders", SideEffect::Read, 84, Ok("[order #1021, #1044]")),
        tool("read_policy", SideEffect::Read, 210, Ok("Thirty days, unopened.")),
        tool("track_parcel", SideEffect::Read, 60, Err("the carrier does not know order 1044")),
        tool("note", SideEffect::Write, 40, Ok("noted")),
    ];
    let agent = Agent::builder(model).tools(tools).build()?;
    let reply = agent.run("What can I still return?").await?;
    Ok(reply.trace().events().to_vec())
}

fn tool(
    name: &'static str,
    effect: SideEffect,
    millis: u64,
    result: Result<&'static str, &'static str>,
) -> Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new(name, "Does its work.", schema, SideEffects::of(&[effect]), move |_, _| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            result.map(Into::into).map_err(ToolError::new)
        })
    })
}
