//! A run that is killed and goes on: give the same command again, as often as you like.
//!
//!     cargo run --example durable -- --journal FILE --ledger FILE
//!
//! When it is built, `target/debug/durable` is the program itself, whose run takes about half a second; to
//! kill it in the middle: `target/debug/durable --journal FILE --ledger FILE & sleep 0.2; kill -9 $!`
//!
//! A scripted model looks and pays, six payments in all; each call takes 50 ms, and a payment is a line
//! in the ledger. Kill the program whenever you like and give the same command again: it goes on in the
//! middle of the run, says what it found in doubt, and pays nothing twice. Exit codes: 0 the model has
//! answered, 1 failed, 2 not set up.

#[path = "../program.rs"]
mod program;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use harness::{
    Agent, CallOutcome, Chat, State,
    journal::SqliteJournal,
    testing::{ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::json;

const USAGE: &str = "durable --journal FILE --ledger FILE: a run that can be killed and goes on";

/// The name of the conversation in the journal.
const CONVERSATION: &str = "payments";

/// So long each call takes, half of it before its effect.
const CALL: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let Files { journal, ledger } = Files::given(&program::arguments()?)?;
    let agent = Agent::builder(model()).tools(tools![pay, look]).state(Ledger(ledger)).build()?;
    let journal = SqliteJournal::open(&journal).await?;
    let mut out = io::stdout();
    let mut chat = agent.open(&journal, CONVERSATION).await?;
    if chat.facts() > 0 {
        writeln!(out, "The conversation goes on after {} facts.", chat.facts())?;
    }
    for open in chat.in_doubt() {
        writeln!(out, "In doubt: {} {}", open.call.name(), open.call.arguments())?;
    }
    let answer = match chat.transcript().messages().last() {
        None if !chat.can_resume() => chat.send("Pay 1 to 6.").await?.text().to_owned(),
        // A process before this one has got the answer.
        Some(last) if !chat.can_resume() => last.text(),
        _ => chat.resume().await?.text().to_owned(),
    };
    for (call, outcome) in results(&chat) {
        writeln!(out, "{call}: {outcome}")?;
    }
    writeln!(out, "{answer}")?;
    Ok(ExitCode::SUCCESS)
}

/// Each payment, and what the model was told of it.
fn results(chat: &Chat) -> Vec<(String, &'static str)> {
    let messages = chat.transcript().messages();
    let results = messages.iter().flat_map(harness::Message::results);
    let told = results.filter(|result| result.call_id().starts_with("pay")).map(|result| {
        let told = match result.outcome() {
            CallOutcome::Succeeded => "paid",
            CallOutcome::InDoubt => "in doubt",
            _ => "not paid",
        };
        (result.call_id().replace('_', " "), told)
    });
    told.collect()
}

/// Where the lines of the payments are written.
struct Ledger(PathBuf);

/// Pays a bill.
#[tool(side_effects = "write")]
async fn pay(
    /** Number of the bill */
    bill: u32,
    ledger: State<Ledger>,
) -> Result<String, io::Error> {
    tokio::time::sleep(CALL / 2).await;
    let mut file = OpenOptions::new().create(true).append(true).open(&ledger.0)?;
    file.write_all(format!("pay {bill}\n").as_bytes())?;
    tokio::time::sleep(CALL / 2).await;
    Ok(format!("the bill {bill} is paid"))
}

/// Looks at a bill.
#[tool(side_effects = "read")]
async fn look(
    /** Number of the bill */
    bill: u32,
) -> String {
    tokio::time::sleep(CALL).await;
    format!("the bill {bill} is due")
}

/// Asks for the next calls by what it reads, so that it goes on wherever the conversation is.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let answers = request.messages().iter().filter(|it| it.calls().next().is_some()).count();
        turn(answers)
    })
}

fn turn(number: usize) -> ScriptedReply {
    let calls: &[(&str, u32)] = match number {
        0 => &[("look", 1), ("pay", 1), ("pay", 2)],
        1 => &[("pay", 3), ("look", 4)],
        2 => &[("pay", 4), ("pay", 5)],
        3 => &[("look", 6), ("pay", 6)],
        _ => return reply().text("All six bills were paid once, but for those in doubt."),
    };
    calls.iter().fold(reply(), |reply, (name, bill)| {
        reply.call_with_id(format!("{name}_{bill}"), *name, json!({ "bill": bill }))
    })
}

/// The files that are given.
struct Files {
    journal: PathBuf,
    ledger: PathBuf,
}

impl Files {
    fn given(arguments: &[String]) -> anyhow::Result<Self> {
        let (mut journal, mut ledger) = (None, None);
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let file = match word.as_str() {
                "--journal" => &mut journal,
                "--ledger" => &mut ledger,
                other => return Err(program::wrong(format!("`{other}` is unknown; {USAGE}"))),
            };
            let Some(path) = rest.next() else {
                return Err(program::wrong(format!("`{word}` needs a FILE")));
            };
            *file = Some(PathBuf::from(path));
        }
        match (journal, ledger) {
            (Some(journal), Some(ledger)) => Ok(Self { journal, ledger }),
            _ => Err(program::wrong(format!("two files are needed; {USAGE}"))),
        }
    }
}
