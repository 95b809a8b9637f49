//! An agent whose model follows a script and whose tools write down what happened.
//!
//! What it does depends on what it is told: "Go." calls tools of each kind, and one of them waits for a person;
//! "Think." answers too slowly to be waited for, and "Say it slowly." so slowly that one can kill it meanwhile; "Work." calls a tool that is as slow; "Big." calls one whose result
//! the engine cannot take (with `BIG` set); "Ask an agent." calls an agent that is a tool; "Look." reads so much that
//! results are cleared, and "Tell 1." and so on until the conversation is summed up; "Fail." gets an error of the
//! provider; "Pay." calls a tool that can find out what became of it, in which it takes too long to be waited for;
//! "Mail and work." asks for a permission and then works; "Two mails." asks for two; "Search." searches for a tool of
//! which the model is not told, and calls it, as "Store." does without a search; "Huge." calls a tool whose result is
//! kept apart, and reads a part of it; "Which book?" wants a value; "Whose?" calls a tool that needs a value of the
//! run.

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
    Agent, Error, ErrorKind, Message, Role, SideEffect, SideEffects, Tool,
    agent::Steps,
    context::Window,
    policy::{ApprovalRequest, Guardrails, Limits},
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool::{Reconciled, ToolLimits, ToolSearch},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);
/// Longer than any test waits.
const SLOW: Duration = Duration::from_secs(600);

/// Who the user of a run is.
#[derive(Clone)]
pub struct User(pub String);

/// A book of the library.
#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
pub struct Book {
    /// Its title, without the author.
    pub title: String,
    /// The year in which it was published.
    pub year: u16,
}

/// What kind of run a text begins.
pub fn kind_of(text: &str) -> &'static str {
    match text {
        "Which book?" => "book",
        "Go within two calls." => "short",
        _ => "",
    }
}

/// What a run gets beside its message.
pub fn given(conversation: &str, kind: &str, steps: Steps) -> Steps {
    let who = match kind {
        "guest" => "guest",
        "slow" => "slow user",
        _ => "user",
    };
    let steps = steps.state(User(format!("the {who} of {conversation}")));
    match kind {
        "panics" => panic!("no such kind"),
        "ill" if World::of_this_process().is_ill(conversation) => panic!("it is ill"),
        "book" => steps.answer::<Book>(),
        "short" => steps.limits(two_calls()),
        "checked" => steps.verify(1, |_| async { Err::<(), _>("say more") }),
        _ => steps,
    }
}

pub fn two_calls() -> Limits {
    Limits::new().tool_calls(2)
}

/// The files in which a test reads what happened, and where the process kills itself.
pub struct World {
    folder: PathBuf,
    kill_at: Vec<String>,
    hold_at: Option<String>,
    panic_at: Option<String>,
}

impl World {
    pub fn of_this_process() -> Self {
        let folder = std::env::var_os("WORLD").map_or_else(std::env::temp_dir, PathBuf::from);
        let kill_at = std::env::var("KILL_AT").unwrap_or_default();
        let kill_at = kill_at.split(',').filter(|at| !at.is_empty()).map(str::to_owned).collect();
        let hold_at = std::env::var("HOLD_AT").ok();
        let panic_at = std::env::var("PANIC_AT").ok();
        Self { folder, kill_at, hold_at, panic_at }
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
        Self { folder, kill_at: Vec::new(), hold_at: None, panic_at: None }
    }

    /// Counts the points that all lives have passed, and ends this life at those it is told: by their
    /// numbers, or as `name#2` the second time that this one is passed. At the point `HOLD_AT` it
    /// says so in the file `held` and waits until there is a file `released`. Points of the name `PANIC_AT` panic.
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
        assert!(self.panic_at.as_deref() != Some(name), "a panic {name}");
        if self.hold_at.as_ref().is_some_and(|at| here.contains(at)) {
            self.note("held", name);
            // The other tasks of the worker go on.
            tokio::task::block_in_place(|| {
                while !self.folder.join("released").exists() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
    }

    /// Whether there is a file `ill`. It notes who has asked.
    fn is_ill(&self, conversation: &str) -> bool {
        let is_ill = self.folder.join("ill").exists();
        if is_ill {
            self.note("was ill", conversation);
        }
        is_ill
    }

    pub fn effects(&self) -> String {
        fs::read_to_string(self.folder.join("effects")).unwrap_or_default()
    }
}

/// How many tools the model has to search for.
const STORES: u32 = 40;

fn tool(name: &str, effects: SideEffects, world: &Arc<World>) -> Tool {
    let (world, own) = (Arc::clone(world), name.to_owned());
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let does = match name.strip_prefix("store_") {
        Some(shelf) => format!(
            "Stores a thing in the shelf {shelf}, where it stays until somebody asks for it."
        ),
        None => "Does it.".to_owned(),
    };
    Tool::new(name.to_owned(), does, schema, effects, move |context, arguments| {
        let (world, name) = (Arc::clone(&world), own.clone());
        Box::pin(async move {
            world.point(&format!("in {name} before it"));
            let key = context.idempotency_key();
            world.note("effects", &format!("{name} {} {key}", arguments["n"]));
            world.point(&format!("in {name} after it"));
            match &*name {
                "slow" => tokio::time::sleep(SLOW).await,
                "pay"
                    if context
                        .state::<User>()
                        .is_some_and(|user| user.0.starts_with("the slow")) =>
                {
                    tokio::time::sleep(SLOW).await;
                }
                "big" => return Ok("x".repeat(9 << 20).into()),
                "page" => return Ok(format!("{:-<1200}", arguments["n"].to_string()).into()),
                "huge" => {
                    let line = |n: u32| format!("line {n} says {}\n", n * 7919);
                    return Ok((1..=9_000).map(line).collect::<String>().into());
                }
                "whose" => {
                    let user = context.state::<User>().map(|user| user.0.clone());
                    return Ok(user.unwrap_or_default().into());
                }
                _ => {}
            }
            Ok("done".into())
        })
    })
}

/// The calls that the model asks for after what was said, answer by answer.
fn asks(text: &str) -> &'static [&'static [&'static str]] {
    match text {
        "Mail and say whose." => &[&["mail"], &["whose"]],
        "Go." | "Go within two calls." => {
            &[&["look", "look", "note", "put"], &["pay", "mail", "note"]]
        }
        "Mail and work." => &[&["mail"], &["slow"], &["note"]],
        "Two mails." => &[&["mail", "mail"]],
        "Pay." => &[&["pay"]],
        "Write." => &[&["note"]],
        "Mail soon." => &[&["mail"]],
        "Work." => &[&["slow"]],
        "Big." => &[&["big"]],
        "Ask an agent." => &[&["helper"]],
        "Whose?" => &[&["whose"]],
        "Huge." => &[&["huge"], &["read_result"]],
        "Search." => &[&["tool_search"], &["store_17"]],
        "Store." => &[&["store_17"]],
        "Look." => &[&["page", "page"] as &[&str]; 8],
        _ => &[],
    }
}

/// A summary of the form that is asked for.
fn summary() -> String {
    let headings = ["Goals", "Decisions", "Open work", "Names and ids", "Tried and failed"];
    headings.map(|heading| format!("## {heading}\n- go on\n")).concat()
}

/// The name by which the last result is kept.
fn kept_as(messages: &[Message]) -> String {
    let texts = messages.iter().flat_map(|said| said.results().map(|result| result.to_text()));
    let last = texts.last().unwrap_or_default();
    let name = last.split("is kept as `").nth(1).and_then(|rest| rest.split('`').next());
    name.unwrap_or("no name").to_owned()
}

fn script(request: &RecordedRequest) -> ScriptedReply {
    let messages: Vec<Message> = request.messages().iter().cloned().collect();
    let last = request.last_text();
    if last.contains("Sum it up now") {
        return reply().text(summary());
    }
    if last.contains("Which book?") {
        return reply().text(r#"{"title": "Moby-Dick", "year": "1851"}"#);
    }
    if last.contains("/year") {
        return reply().text(r#"{"title": "Moby-Dick", "year": 1851}"#);
    }
    if last.contains("say more") && messages.iter().any(|said| said.text() == "Fail later.") {
        return reply().error(Error::new(ErrorKind::Api, "the model is ill"));
    }
    if last.starts_with("Tell ") {
        return reply().text(format!("{last} {}", "So it went. ".repeat(200)));
    }
    let is_said = |said: &Message| said.role() == Role::User && said.results().next().is_none();
    let begun = messages.iter().rposition(is_said).unwrap_or(0);
    let text = messages.get(begun).map(Message::text).unwrap_or_default();
    let turn = messages[begun..].iter().filter(|said| said.calls().next().is_some()).count();
    let salt = messages.len();
    match asks(&text).get(turn) {
        Some(names) => names.iter().enumerate().fold(reply(), |reply, (n, name)| {
            let arguments = match *name {
                "helper" => json!({"task": "Write."}),
                "tool_search" => json!({"query": "store_17", "limit": 1}),
                "read_result" => json!({"name": kept_as(&messages), "line": 600, "lines": 2}),
                _ => json!({"n": 10 * salt + n}),
            };
            reply.call_with_id(format!("{name}_{salt}_{n}"), *name, arguments)
        }),
        None if text == "Fail." => reply().error(Error::new(ErrorKind::Api, "the model is ill")),
        None if text == "Think." => reply().text("Well").pause(SLOW).text("."),
        None if text == "Say it slowly." => {
            reply().text_in(["We", "ll"]).pause(Duration::from_secs(2)).text(", done.")
        }
        None => reply().text("Done."),
    }
}

/// The agent.
pub fn agent(world: &Arc<World>) -> Result<Agent, Error> {
    let model = |world: &Arc<World>| {
        let world = Arc::clone(world);
        ScriptedProvider::answering(move |request| {
            world.note("asked", "");
            script(request)
        })
    };
    let ledger = Arc::clone(world);
    let pay = tool("pay", WRITE, world).with_reconcile(move |context, _| {
        ledger.point("in pay finding out");
        let paid = ledger.effects().lines().any(|line| line.ends_with(context.idempotency_key()));
        let found =
            if paid { Reconciled::Happened("paid".into()) } else { Reconciled::NotHappened };
        let slow = context.state::<User>().is_some_and(|user| user.0.starts_with("the slow"));
        let ledger = Arc::clone(&ledger);
        Box::pin(async move {
            if slow {
                ledger.note("finding out", "");
                tokio::time::sleep(SLOW).await;
            }
            Ok(found)
        })
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
        tool("page", READ, world),
        tool("huge", READ, world),
        tool("whose", READ, world),
        helper.as_tool("helper", "Helps."),
    ];
    let stores: Vec<_> = (1..=STORES).map(|n| tool(&format!("store_{n}"), WRITE, world)).collect();
    let always: Vec<_> = tools.iter().map(|tool| tool.name().to_owned()).collect();
    let days =
        std::env::var("MAIL_WAITS").ok().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    let later = move |question: ApprovalRequest| async move {
        question.later(days.map(|wait| SystemTime::now() + wait))
    };
    let limits = match std::env::var_os("BIG") {
        Some(_) => ToolLimits::default().output(64 << 20),
        None => ToolLimits::default(),
    };
    Agent::builder(model(world))
        .tools(tools)
        .tools(stores)
        .tool_search(ToolSearch::new().always(always))
        .tool_limits(limits)
        // All workers have it.
        .spill_folder(world.folder.join("results"))
        .window(Window::new().tokens(8_000))
        .state_per_run::<User>()
        .approver(later)
        .early_start(std::env::var_os("EARLY").is_some())
        .guardrails(Guardrails::default().turns(12))
        .build()
}
