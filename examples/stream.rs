//! One task, shown as it streams, that Ctrl-C stops: what was said is kept, and what became of
//! each call is told.
//!
//!     cargo run --example stream
//!     cargo run --example stream -- "What is 2 + 3? Then count to 500."
//!
//! needs no key; `PROVIDER=anthropic`, `openai` or `local` asks a real model. Exit codes: 0
//! answered, 1 failed, 2 not set up, 130 interrupted.

mod answering;
mod ending;
mod offline;
mod screen;

use std::process::ExitCode;

use harness::{
    Agent, CancellationToken, Outcome,
    policy::{RetryPolicy, RetryProvider},
    toolbox::{Files, calc},
    tools,
};
use screen::Screen;
use tokio::signal;

const TASK: &str = "What is 17 * 23 - 100? Then count to 300.";
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|err| {
        eprintln!("{err:#}");
        ExitCode::from(answering::exit_code(&err))
    })
}

async fn run() -> anyhow::Result<ExitCode> {
    let mut screen = Screen::stdout();
    let answering = answering::from_env().await?;
    screen.line(&answering.introduction)?;
    let agent = Agent::builder(RetryProvider::new(answering.provider, RetryPolicy::default()))
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(Files::in_folder(".")?.tools())
        .build()?;
    let task = std::env::args().nth(1).unwrap_or_else(|| TASK.to_owned());
    screen.line(&format!("> {task}\n"))?;

    let stop = CancellationToken::new();
    let mut run = agent
        .run(task)
        .cancel_with(stop.clone())
        .on_event(|event| screen.show(event))
        .into_future();
    // The first Ctrl-C stops the run, which then says what it leaves. From here on the system
    // stops nothing by itself, so the second one ends the program; dropping the run stops it too.
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
            // Behind the `^C` that the terminal has echoed.
            screen.line("")?;
            ending::show(&mut screen, &stopped)?;
            let interrupted = stopped.outcome() == Outcome::Interrupted;
            Ok(ExitCode::from(if interrupted { INTERRUPTED } else { 1 }))
        }
    }
}
