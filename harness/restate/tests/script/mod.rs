//! An agent whose model follows a script and whose tools write down what happened.
//!
//! What it does depends on what it is told: "Go." calls tools of each kind, and one of them waits for a
//! person; "Think." answers too slowly to be waited for; "Work." calls a tool that is as slow; "Big." calls
//! one whose result the engine cannot take; "Ask an agent." calls an agent that is a tool.

// Each program that has it uses a part.
#![allow(dead_code, unreachable_pub)]

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use harness::{
    Agent, Error, Message, Role, SideEffect, SideEffects, Tool,
    policy::{Guardrails, Question},
    testing::{ScriptedProvider, ScriptedReply, reply},
    tool::{Reconciled, ToolLimits},
};
use serde_json::json;

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);
/// Longer than any test waits.
const SLOW: Duration = Duration::from_secs(600);

/// The files in which a test reads what happened, and where the process kills itself.
pub struct World {
    folder: PathBuf,
    kill_at: Vec<String>,
}

impl World {
    pub fn of_this_process() -> Self {
        let folder = std::env::var_os("WORLD").map_or_else(std::env::temp_dir, PathBuf::from);
        let kill_at = std::env::var("KILL_AT").unwrap_or_default();
        let kill_at = kill_at.split(',').filter(|at| !at.is_empty()).map(str::to_owned).collect();
        Self { folder, kill_at }
    }

    pub fn note(&self, file: &str, line: &str) {
        let path = self.folder.join(file);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        if let Err(err) = opened.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        {
            eprintln!("{}: {err}", path.display());
            std::process::exit(3);
        }
    }

    /// One in which nobody is killed.
    pub fn calm(folder: PathBuf) -> Self {
        Self { folder, kill_at: Vec::new() }
    }

    /// Counts the points that all lives have passed, and ends this life at those it is told: by their
    /// numbers, or as `name#2` the second time that this one is passed.
    pub fn point(&self, name: &str) {
        if self.kill_at.is_empty() {
            return;
        }
        self.note("points", name);
        let passed = fs::read_to_string(self.folder.join("points")).unwrap_or_default();
        let same = passed.lines().filter(|line| *line == name).count();
        let here = [passed.lines().count().to_string(), format!("{name}#{same}")];
        if self.kill_at.iter().any(|at| here.contains(at)) {
            std::process::abort();
        }
    }

    pub fn effects(&self) -> String {
        fs::read_to_string(self.folder.join("effects")).unwrap_or_default()
    }
}

fn tool(name: &'static str, effects: SideEffects, world: &Arc<World>) -> Tool {
    let world = Arc::clone(world);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does it.", schema, effects, move |context, arguments| {
        let world = Arc::clone(&world);
        Box::pin(async move {
            world.point(&format!("in {name} before it"));
            let key = context.idempotency_key();
            world.note("effects", &format!("{name} {} {key}", arguments["n"]));
            world.point(&format!("in {name} after it"));
            match name {
                "slow" => tokio::time::sleep(SLOW).await,
                "big" => return Ok("x".repeat(9 << 20).into()),
                _ => {}
            }
            Ok("done".into())
        })
    })
}

/// The calls that the model asks for after what was said, answer by answer.
fn asks(text: &str) -> &'static [&'static [&'static str]] {
    match text {
        "Go." => &[&["look", "look", "note", "put"], &["pay", "mail", "note"]],
        "Write." => &[&["note"]],
        "Mail soon." => &[&["mail"]],
        "Work." => &[&["slow"]],
        "Big." => &[&["big"]],
        "Ask an agent." => &[&["helper"]],
        _ => &[],
    }
}

fn script(messages: &[Message]) -> ScriptedReply {
    let is_said = |said: &Message| said.role() == Role::User && said.results().next().is_none();
    let begun = messages.iter().rposition(is_said).unwrap_or(0);
    let text = messages.get(begun).map(Message::text).unwrap_or_default();
    let turn = messages[begun..].iter().filter(|said| said.calls().next().is_some()).count();
    let salt = messages.len();
    match asks(&text).get(turn) {
        Some(names) => names.iter().enumerate().fold(reply(), |reply, (n, name)| {
            let arguments = match *name {
                "helper" => json!({"task": "Write."}),
                _ => json!({"n": 10 * salt + n}),
            };
            reply.call_with_id(format!("{name}_{salt}_{n}"), *name, arguments)
        }),
        None if text == "Think." => reply().text("Well").pause(SLOW).text("."),
        None => reply().text("Done."),
    }
}

/// The agent.
pub fn agent(world: &Arc<World>) -> Result<Agent, Error> {
    let model = |world: &Arc<World>| {
        let world = Arc::clone(world);
        ScriptedProvider::answering(move |request| {
            world.note("asked", "");
            let messages: Vec<Message> = request.messages().iter().cloned().collect();
            script(&messages)
        })
    };
    let ledger = Arc::clone(world);
    let pay = tool("pay", WRITE, world).with_reconcile(move |context, _| {
        ledger.point("in pay finding out");
        let paid = ledger.effects().lines().any(|line| line.ends_with(context.idempotency_key()));
        let found =
            if paid { Reconciled::Happened("paid".into()) } else { Reconciled::NotHappened };
        Box::pin(async move { Ok(found) })
    });
    let helper = Agent::builder(model(world)).tools([tool("note", WRITE, world)]).build()?;
    let tools = [
        tool("look", READ, world),
        tool("note", WRITE, world),
        tool("put", WRITE, world).idempotent(),
        pay,
        tool("mail", NETWORK, world),
        tool("slow", WRITE, world),
        tool("big", READ, world),
        helper.as_tool("helper", "Helps."),
    ];
    let days =
        std::env::var("MAIL_WAITS").ok().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let later = move |question: Question| async move {
        question.later(days.map(|wait| SystemTime::now() + wait))
    };
    Agent::builder(model(world))
        .tools(tools)
        .tool_limits(ToolLimits::default().output(64 << 20))
        .approver(later)
        .early_start(std::env::var_os("EARLY").is_some())
        .guardrails(Guardrails::default().turns(6))
        .build()
}
