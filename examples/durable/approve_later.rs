//! A person decides later, in another process: one process asks and ends, another lists and answers, a
//! third goes on.
//!
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE ask
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE list
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE allow
//!     cargo run -p harness-durable-examples --bin approve_later -- --journal FILE go
//!
//! `deny REASON` stands in place of `allow`. Exit codes: 0 done, 1 failed, 2 not set up, 3 a call still
//! waits.

#[path = "../program.rs"]
mod program;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{
    Agent, Outcome, Reply, Stopped,
    agent::OpenCall,
    journal::SqliteJournal,
    policy::{Question, visible},
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

const USAGE: &str =
    "approve_later --journal FILE ask|list|allow|deny REASON|go: a person decides later";

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
    let ["--journal", file, command @ ..] = given.as_slice() else {
        return Err(program::wrong(format!("expected `--journal FILE`; {USAGE}")));
    };
    let agent = agent()?;
    let journal = SqliteJournal::open(file).await?;
    let inbox = agent.inbox(&journal);
    match command {
        ["ask"] => {
            let mut chat = agent.open(&journal, CONVERSATION).await?;
            shown(chat.send("Invite Ada to the meeting on Monday.").await)
        }
        ["list"] => {
            for open in inbox.waiting(CONVERSATION).await? {
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
        ["go"] => shown(agent.open(&journal, CONVERSATION).await?.resume().await),
        _ => Err(program::wrong(format!("expected a command; {USAGE}"))),
    }
}

/// An agent whose approver has nobody to ask now: a call that must be approved waits, and the run ends.
fn agent() -> Result<Agent, harness::Error> {
    let model = ScriptedProvider::answering(|request| {
        match request.messages().last().is_some_and(|last| last.results().next().is_some()) {
            false => reply().call("send_mail", json!({"to": "ada@example.org", "text": "Monday?"})),
            true => reply().text("That is settled."),
        }
    });
    Agent::builder(model)
        .tools(tools![send_mail])
        .approver(|question: Question| async move { question.later(None) })
        .build()
}

/// Sends a mail.
#[tool(side_effects = "network")]
fn send_mail(
    /** To whom */
    to: &str,
    /** What it says */
    text: &str,
) -> io::Result<String> {
    // A mail of this example goes no further than the terminal.
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

fn questions(waiting: &[OpenCall]) -> anyhow::Result<Vec<Question>> {
    let questions: Vec<Question> = waiting.iter().filter_map(OpenCall::question).collect();
    anyhow::ensure!(!questions.is_empty(), "nothing waits to be decided");
    Ok(questions)
}

fn said(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{}", visible(text))
}
