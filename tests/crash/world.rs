//! What the agents of these tests change: a ledger, and files that have the key of a call as their name.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use harness::{
    Agent, Error, Message, SideEffect, SideEffects, Tool, ToolContext, ToolError,
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, crash_point, reply},
    tool::Reconciled,
};
use serde_json::json;

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// What a tool does to the folder of its conversation.
pub(crate) type Does = fn(&Path, &ToolContext, &str) -> io::Result<()>;

/// Writes a line into the ledger. Each further call writes another one.
pub(crate) fn appends(folder: &Path, context: &ToolContext, what: &str) -> io::Result<()> {
    let ledger = folder.join("ledger");
    let file = OpenOptions::new().create(true).append(true).open(ledger);
    let line = format!("{what} by {}\n", context.idempotency_key());
    file.and_then(|mut file| file.write_all(line.as_bytes()))?;
    crash_point(&format!("after {what} stands in the ledger"));
    Ok(())
}

/// Makes a file that has the key as its name. A further call of the same key changes nothing.
pub(crate) fn makes(folder: &Path, context: &ToolContext, what: &str) -> io::Result<()> {
    let key = context.idempotency_key();
    fs::write(folder.join(format!("made {}", key.replace('/', " "))), format!("{what} by {key}"))?;
    crash_point(&format!("after the file of {what} is there"));
    Ok(())
}

pub(crate) fn reads(folder: &Path, _: &ToolContext, _: &str) -> io::Result<()> {
    fs::read_dir(folder).map(drop)
}

/// The effects that are there.
pub(crate) fn observe(folder: &Path) -> Vec<String> {
    let ledger = fs::read_to_string(folder.join("ledger")).unwrap_or_default();
    let mut effects: Vec<String> = ledger.lines().map(str::to_owned).collect();
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let made = files.filter(|file| file.file_name().to_string_lossy().starts_with("made"));
    effects.extend(made.filter_map(|file| fs::read_to_string(file.path()).ok()));
    effects
}

/// A tool that does this to the folder.
pub(crate) fn tool(name: &'static str, effects: SideEffects, folder: &Path, does: Does) -> Tool {
    let folder = folder.to_owned();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does it.", schema, effects, move |context, arguments| {
        let (folder, what) = (folder.clone(), format!("{name} {}", arguments["n"]));
        Box::pin(async move {
            does(&folder, &context, &what).map_err(|err| ToolError::new(err.to_string()))?;
            Ok(format!("{what} is done").into())
        })
    })
}

/// What the tools of an agent do.
#[derive(Clone, Copy)]
pub(crate) struct Tools {
    pub(crate) look: Does,
    pub(crate) put: Does,
}

impl Default for Tools {
    fn default() -> Self {
        Self { look: reads, put: makes }
    }
}

/// An agent that looks, pays (which may not be repeated), puts (which may), and books (which finds out
/// whether it has).
pub(crate) fn agent(folder: &Path, tools: Tools) -> Result<Agent, Error> {
    let books = folder.to_owned();
    let book = tool("book", WRITE, folder, appends).with_reconcile(move |context, _| {
        let effects = observe(&books);
        Box::pin(async move {
            let key = context.idempotency_key();
            Ok(match effects.iter().any(|effect| effect.contains(key)) {
                true => Reconciled::Happened("it is booked".into()),
                false => Reconciled::NotHappened,
            })
        })
    });
    let tools = [
        tool("look", READ, folder, tools.look),
        tool("pay", WRITE, folder, appends),
        tool("put", WRITE, folder, tools.put).idempotent(),
        book,
    ];
    Agent::builder(ScriptedProvider::answering(answers)).tools(tools).build()
}

/// Answers by what it reads, so that it goes on wherever a conversation is.
fn answers(request: &RecordedRequest) -> ScriptedReply {
    let messages: Vec<&Message> = request.messages().iter().collect();
    let from = messages.iter().rposition(|message| message.text().starts_with("Message"));
    let from = from.unwrap_or(0);
    let said = messages[from].text().split(' ').nth(1).map_or(0, |n| n.parse().unwrap_or(0));
    let turns = messages[from..].iter().filter(|it| it.calls().next().is_some()).count();
    let call = |it: ScriptedReply, name: &str, n: usize| {
        it.call_with_id(format!("{name}_{said}_{n}"), name, json!({ "n": said * 10 + n }))
    };
    match turns {
        0 => call(call(call(reply().text("I see."), "look", 1), "pay", 1), "put", 1),
        1 => call(call(call(reply(), "book", 2), "look", 2), "look", 3),
        _ => reply().text(format!("All of {said} is done.")),
    }
}
