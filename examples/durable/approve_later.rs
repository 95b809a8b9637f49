//! A person approves a call later, in another process: one process asks and ends, another one lists
//! and answers, a third one resumes the run.
//!
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE ask
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE list
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE allow
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE go
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE trace > page.html
//!
//! Use `deny REASON` in place of `allow`. Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 a call still
//! waits.

#[path = "../program.rs"]
mod program;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use harness::{
    Agent, Outcome, Reply, Stopped,
    agent::OpenCall,
    journal::SqliteJournal,
    policy::{ApprovalRequest, visible},
    testing::{ScriptedProvider, reply},
    tool, tools, trace,
};
use serde_json::json;

const USAGE: &str = "\
approve_later --journal FILE ask|list|allow|deny REASON|go|trace: a person approves a call later, in another process
ask    a scripted model wants to send a mail; the call waits, and the process ends
list   shows the calls that wait
allow  approves them; deny REASON refuses them, and the model reads the reason
go     resumes the run
trace  prints an HTML page of what has happened
`ask` makes the FILE; the others need it.";

/// What was expected, in the errors of wrong arguments.
const EXPECTED: &str =
    "expected `approve_later --journal FILE ask|list|allow|deny REASON|go|trace`";

/// The name of the conversation in the journal.
const CONVERSATION: &str = "invitation";
const WAITS: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let given = program::arguments()?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let (file, command) = match given.as_slice() {
        ["--journal", file, command @ ..] => (*file, command),
        ["--journal"] => return Err(wrong("`--journal` needs a FILE")),
        [] => return Err(wrong("`--journal FILE` is missing")),
        ["ask" | "list" | "allow" | "deny" | "go" | "trace", ..] => {
            return Err(wrong("`--journal FILE` is missing before the command"));
        }
        [other, ..] => return Err(wrong(&format!("`{other}` is unknown"))),
    };
    match command {
        ["ask" | "list" | "allow" | "go" | "trace"] | ["deny", _] => {}
        [] => return Err(wrong("the command is missing")),
        ["deny"] => return Err(wrong("`deny` needs a REASON")),
        ["ask" | "list" | "allow" | "go" | "trace", more, ..] | ["deny", _, more, ..] => {
            return Err(wrong(&format!("`{more}` is too much")));
        }
        [other, ..] => return Err(wrong(&format!("`{other}` is unknown"))),
    }
    if command != ["ask"] && !Path::new(file).exists() {
        anyhow::bail!("there is no journal `{file}`; `ask` makes one");
    }
    let agent = agent()?;
    let journal = SqliteJournal::open(file).await?;
    let inbox = agent.inbox(&journal);
    match command {
        ["ask"] => {
            let mut chat = agent.open(&journal, CONVERSATION).await?;
            shown(chat.send("Invite Ada to the meeting on Monday.").await)
        }
        ["list"] => {
            let waiting = inbox.waiting(CONVERSATION).await?;
            if waiting.is_empty() {
                said("No call waits.")?;
            }
            for open in waiting {
                said(&asked(&open))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ["allow"] => {
            for question in questions(&inbox.waiting(CONVERSATION).await?)? {
                inbox
                    .decide(CONVERSATION, question.yes().by("the person at this terminal"))
                    .await?;
                said("allowed")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ["deny", reason] => {
            for question in questions(&inbox.waiting(CONVERSATION).await?)? {
                inbox.decide(CONVERSATION, question.no(*reason)).await?;
                said("denied")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ["trace"] => {
            let page = trace::page(&inbox.trace(CONVERSATION).await?);
            let out = io::stdout();
            match out.is_terminal() {
                true => said(&page)?,
                // A file gets the page as it is.
                false => write!(&out, "{page}")?,
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => shown(agent.open(&journal, CONVERSATION).await?.resume().await),
    }
}

fn wrong(fault: &str) -> anyhow::Error {
    program::wrong(format!("{fault}; {EXPECTED}"))
}

/// An agent whose approver always answers *later*: a call that needs approval waits, and the run ends.
fn agent() -> Result<Agent, harness::Error> {
    let model = ScriptedProvider::answering(|request| {
        match request.messages().last().is_some_and(|last| last.results().next().is_some()) {
            false => reply().call("send_mail", json!({"to": "ada@example.org", "text": "Monday?"})),
            true => reply().text("That is settled."),
        }
    });
    Agent::builder(model)
        .tools(tools![send_mail])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
}

/// Sends a mail.
#[tool(side_effects = "network")]
fn send_mail(
    /** The address of the receiver */
    to: &str,
    /** The text of the mail */
    text: &str,
) -> io::Result<String> {
    // The example prints the mail in place of sending it.
    writeln!(io::stdout(), "Mail to {}: {}", visible(to), visible(text))?;
    Ok("sent".to_owned())
}

fn shown(ended: Result<Reply, Stopped>) -> anyhow::Result<ExitCode> {
    match ended {
        Ok(reply) => {
            said(reply.text())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(stopped) if stopped.outcome() == Outcome::Waiting => {
            said("A call waits for a person: `list` shows it, `allow` and `deny` answer it.")?;
            Ok(ExitCode::from(WAITS))
        }
        Err(stopped) => Err(stopped.into()),
    }
}

fn asked(open: &OpenCall) -> String {
    format!("{} {}", open.call.name(), open.call.arguments())
}

fn questions(waiting: &[OpenCall]) -> anyhow::Result<Vec<ApprovalRequest>> {
    let questions: Vec<ApprovalRequest> = waiting.iter().filter_map(OpenCall::question).collect();
    anyhow::ensure!(!questions.is_empty(), "no call waits for a decision");
    Ok(questions)
}

fn said(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{}", visible(text))
}
