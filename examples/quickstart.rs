//! The first example: a model with real tools writes a file, reads it back and calculates a sum.
//!
//!     cargo run --example quickstart
//!
//! needs no key and no network: a scripted model on this machine answers over real HTTP, and the
//! tools really run. With `PROVIDER=anthropic` and `ANTHROPIC_API_KEY` the same program talks to
//! the service; `PROVIDER=openai`, `chat_completions` and `local` likewise. Exit codes: 0 answered, 1 failed, 2 wrong arguments or no key.

mod answering;
mod offline;
mod program;
mod screen;

use std::process::ExitCode;

use anyhow::Context as _;
use harness::{
    Agent,
    toolbox::{Files, calc},
    tools,
};
use screen::Screen;

const USAGE: &str = "\
quickstart: a model with tools writes a file, reads it back and works out a sum
PROVIDER=anthropic, openai, chat_completions or local asks a real model; without it a scripted one answers.";
const TASK: &str = "Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(given) = program::arguments()?.first() {
        return Err(program::wrong(format!("`{given}` is unknown; expected nothing or `--help`")));
    }
    let mut screen = Screen::stdout();
    let answering = answering::from_env().await?;
    screen.line(&format!("{}\n", answering.introduction))?;

    let folder = tempfile::tempdir().context("no folder for the files")?;
    let files = Files::in_folder(folder.path())?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(files.tools())
        .build()?;

    screen.line(&format!("> {TASK}"))?;
    let reply = agent.run(TASK).on_event(|event| screen.show(event)).await?;
    let turns = reply.turns();
    screen.line(&format!("\n{} · {turns} turns", screen::tokens(reply.usage())))?;
    Ok(ExitCode::SUCCESS)
}
