//! One task, shown as it streams, that Ctrl-C stops: the text so far is kept, and the outcome of each
//! call is shown.
//!
//!     cargo run --example stream
//!     cargo run --example stream -- "What is 2 + 3? Then count to 500."
//!
//! needs no key; `PROVIDER=anthropic`, `openai`, `chat_completions` or `local` asks a real model. Exit codes: 0
//! answered, 1 failed, 2 wrong arguments or no key, 130 interrupted.

mod answering;
mod ending;
mod offline;
mod program;
mod screen;

use std::process::ExitCode;

use harness::{Agent, CancellationToken, Outcome, toolbox::calc, tools};
use screen::Screen;
use tokio::signal;

const USAGE: &str = "\
stream [TASK]: one task, shown as it streams, that Ctrl-C stops
PROVIDER=anthropic, openai, chat_completions or local asks a real model; without it a scripted one answers.";
const TASK: &str = "What is 17 * 23 - 100? Then count to 300.";
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let task = task(program::arguments()?)?;
    let mut screen = Screen::stdout();
    let answering = answering::from_env().await?;
    screen.line(&answering.introduction)?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .build()?;
    screen.line(&format!("> {task}\n"))?;

    let stop = CancellationToken::new();
    let mut run = agent
        .run(task)
        .cancel_with(stop.clone())
        .on_event(|event| screen.show(event))
        .into_future();
    // The first Ctrl-C stops the run, which then returns what it leaves. From here on the operating
    // system no longer ends the program, so the second Ctrl-C returns; dropping the run stops it, too.
    let ended = tokio::select! {
        ended = &mut run => ended,
        heard = signal::ctrl_c() => {
            heard?;
            stop.cancel();
            tokio::select! {
                ended = &mut run => ended,
                _ = signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
            }
        }
    };
    drop(run);

    match ended {
        Ok(reply) => {
            let turns = reply.turns();
            screen.line(&format!("\n{} · {turns} turns", screen::tokens(reply.usage())))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(stopped) => {
            // The terminal has echoed `^C` on this line.
            screen.line("")?;
            ending::show(&mut screen, &stopped)?;
            let cancelled = stopped.outcome() == Outcome::Cancelled;
            Ok(ExitCode::from(if cancelled { INTERRUPTED } else { 1 }))
        }
    }
}

/// The task of the arguments, or the default one, which the scripted model understands.
fn task(given: Vec<String>) -> anyhow::Result<String> {
    match given.as_slice() {
        [] => Ok(TASK.to_owned()),
        [task] if !task.starts_with('-') => Ok(task.clone()),
        [option] => Err(program::wrong(format!("`{option}` is unknown; expected a TASK"))),
        [_, more, ..] => {
            Err(program::wrong(format!("`{more}` is too much; put the TASK in quotes")))
        }
    }
}
