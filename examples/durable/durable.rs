//! A run that can be killed and resumed by the same command, as often as you like.
//!
//!     cargo run --example durable -- --journal FILE --ledger FILE
//!
//! The run takes about half a second. To kill it in the middle, start the program itself after it was
//! built: `target/debug/durable --journal FILE --ledger FILE & sleep 0.2; kill -9 $!`
//!
//! A scripted model looks at bills and pays six of them. Each call takes 50 ms, and a payment is a line in
//! the ledger. Kill the program at any time and give the same command again: it resumes the run, names the
//! calls in doubt, and pays nothing twice. Exit codes: 0 the model has answered, 1 failed, 2 wrong
//! arguments.

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

/// The duration of each call, half of it before its effect.
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
        // An earlier process has received the answer.
        Some(last) if !chat.can_resume() => last.text(),
        _ => chat.resume().await?.text().to_owned(),
    };
    let results = results(&chat);
    for (call, outcome) in &results {
        writeln!(out, "{call}: {outcome}")?;
    }
    writeln!(out, "{answer}")?;
    let failed = results.iter().any(|(_, outcome)| *outcome == NOT_PAID);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The outcome of a payment that failed or did not begin.
const NOT_PAID: &str = "not paid";

/// Each payment, and its outcome as the model was told.
fn results(chat: &Chat) -> Vec<(String, &'static str)> {
    let messages = chat.transcript().messages();
    let results = messages.iter().flat_map(harness::Message::results);
    let told = results.filter(|result| result.call_id().starts_with("pay")).map(|result| {
        let told = match result.outcome() {
            CallOutcome::Succeeded => "paid",
            CallOutcome::InDoubt => "in doubt",
            _ => NOT_PAID,
        };
        (result.call_id().replace('_', " "), told)
    });
    told.collect()
}

/// The file with a line for each payment.
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

/// Decides the next calls by the conversation, so that a new process can continue anywhere.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let answers = request.messages().iter().filter(|it| it.calls().next().is_some()).count();
        let results = request.messages().iter().flat_map(harness::Message::results);
        let failed = |outcome| !matches!(outcome, CallOutcome::Succeeded | CallOutcome::InDoubt);
        turn(answers, results.filter(|result| failed(result.outcome())).count())
    })
}

fn turn(number: usize, failed: usize) -> ScriptedReply {
    let calls: &[(&str, u32)] = match number {
        0 => &[("look", 1), ("pay", 1), ("pay", 2)],
        1 => &[("pay", 3), ("look", 4)],
        2 => &[("pay", 4), ("pay", 5)],
        3 => &[("look", 6), ("pay", 6)],
        _ if failed > 0 => return reply().text(format!("{failed} calls failed: see above.")),
        _ => return reply().text("All six bills were paid once, but for those in doubt."),
    };
    calls.iter().fold(reply(), |reply, (name, bill)| {
        reply.call_with_id(format!("{name}_{bill}"), *name, json!({ "bill": bill }))
    })
}

/// The files of the arguments.
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
