//! A run that can be killed and resumed by the same command, as often as you like.
//!
//!     cargo run -p harness-durable-examples --bin durable -- --journal FILE --ledger FILE
//!
//! A scripted model looks at bills and pays six of them. Each call takes half a second (`--call MS`
//! sets it), and a payment is a line in the ledger. Kill the program within these five seconds, by Ctrl-C
//! or by the command that it prints, and start it again with the same files: it resumes the run, names
//! the calls in doubt, and pays nothing twice. Exit codes: 0 the model has answered, 1 failed, 2 wrong
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
    Agent, CallOutcome, Chat, Event, Message, State,
    agent::Run,
    journal::SqliteJournal,
    policy::visible,
    testing::{ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::json;

const USAGE: &str =
    "durable --journal FILE --ledger FILE [--call MS]: a run that can be killed and goes on";

/// The name of the conversation in the journal.
const CONVERSATION: &str = "payments";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let Given { journal, bank } = Given::read(&program::arguments()?)?;
    let agent = Agent::builder(model()).tools(tools![pay, look]).state(bank).build()?;
    let journal = SqliteJournal::open(&journal).await?;
    let mut out = io::stdout();
    let mut chat = agent.open(&journal, CONVERSATION).await?;
    if chat.facts() > 0 {
        writeln!(out, "The conversation goes on after {} facts.", chat.facts())?;
    }
    for open in chat.in_doubt() {
        writeln!(out, "In doubt: {} {}", open.call.name(), open.call.arguments())?;
    }
    if let Some(run) = next_run(&mut chat) {
        let id = std::process::id();
        writeln!(out, "Kill this process while it pays, and start it again: kill -9 {id}")?;
        run.on_event(show).await?;
    }
    let answer = chat.transcript().messages().last().map(Message::text).unwrap_or_default();
    let results = results(&chat);
    for (call, outcome) in &results {
        writeln!(out, "{call}: {outcome}")?;
    }
    writeln!(out, "{answer}")?;
    let failed = results.iter().any(|(_, outcome)| *outcome == NOT_PAID);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The run that this process begins or resumes. `None` if an earlier process has received the answer.
fn next_run(chat: &mut Chat) -> Option<Run<'_>> {
    match chat.can_resume() {
        true => Some(chat.resume()),
        false if chat.transcript().messages().is_empty() => Some(chat.send("Pay 1 to 6.")),
        false => None,
    }
}

/// Shows what each call has done. A closed output does not stop the run.
fn show(event: Event<'_>) {
    if let Event::ToolResult { result, .. } = event {
        let _ = writeln!(io::stdout(), "{}", visible(&result.to_text()));
    }
}

/// The outcome of a payment that failed or did not begin.
const NOT_PAID: &str = "not paid";

/// Each payment, and its outcome as the model was told.
fn results(chat: &Chat) -> Vec<(String, &'static str)> {
    let messages = chat.transcript().messages();
    let results = messages.iter().flat_map(Message::results);
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

/// Where bills are paid.
struct Bank {
    /// The file with a line for each payment.
    ledger: PathBuf,
    /// The duration of each call, half of it before its effect.
    call: Duration,
}

/// Pays a bill.
#[tool(side_effects = "write")]
async fn pay(
    /** Number of the bill */
    bill: u32,
    bank: State<Bank>,
) -> Result<String, io::Error> {
    tokio::time::sleep(bank.call / 2).await;
    let mut file = OpenOptions::new().create(true).append(true).open(&bank.ledger)?;
    file.write_all(format!("pay {bill}\n").as_bytes())?;
    tokio::time::sleep(bank.call / 2).await;
    Ok(format!("the bill {bill} is paid"))
}

/// Looks at a bill.
#[tool(side_effects = "read")]
async fn look(
    /** Number of the bill */
    bill: u32,
    bank: State<Bank>,
) -> String {
    tokio::time::sleep(bank.call).await;
    format!("the bill {bill} is due")
}

/// Decides the next calls by the conversation, so that a new process can continue anywhere.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let answers = request.messages().iter().filter(|it| it.calls().next().is_some()).count();
        let results = request.messages().iter().flat_map(Message::results);
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

/// The arguments.
struct Given {
    journal: PathBuf,
    bank: Bank,
}

impl Given {
    fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let (mut journal, mut ledger, mut call) = (None, None, Duration::from_millis(500));
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !matches!(word.as_str(), "--journal" | "--ledger" | "--call") {
                return Err(program::wrong(format!("`{word}` is unknown; {USAGE}")));
            }
            let Some(value) = rest.next() else {
                return Err(program::wrong(format!("`{word}` needs a value; {USAGE}")));
            };
            match word.as_str() {
                "--journal" => journal = Some(PathBuf::from(value)),
                "--ledger" => ledger = Some(PathBuf::from(value)),
                _ => {
                    let millis = value.parse().map_err(|_| {
                        program::wrong(format!("`--call` needs milliseconds, not `{value}`"))
                    })?;
                    call = Duration::from_millis(millis);
                }
            }
        }
        match (journal, ledger) {
            (Some(journal), Some(ledger)) => Ok(Self { journal, bank: Bank { ledger, call } }),
            _ => Err(program::wrong(format!("two files are needed; {USAGE}"))),
        }
    }
}
