//! One conversation of three messages, in which each answer uses the ones before.
//!
//!     cargo run --example multi_turn
//!
//! needs no key; `PROVIDER=anthropic`, `openai`, `chat_completions` or `local` asks a real model. Exit codes: 0
//! answered, 1 failed, 2 wrong arguments or no key.

mod answering;
mod ending;
mod offline;
mod program;
mod screen;

use std::process::ExitCode;

use harness::{Agent, toolbox::calc, tools};
use screen::Screen;

const USAGE: &str = "\
multi_turn: one conversation of three messages
PROVIDER=anthropic, openai, chat_completions or local asks a real model; without it a scripted one answers.";
const PROMPTS: [&str; 3] = [
    "My favourite number is 42.",
    "What is it times 17, minus 100?",
    "Which was my favourite number?",
];

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
    screen.line(&answering.introduction)?;
    let agent = Agent::builder(answering.provider)
        .system("You are concise. Use the tools; do not work out sums yourself.")
        .tools(tools![calc])
        .build()?;

    let mut chat = agent.chat();
    for prompt in PROMPTS {
        screen.line(&format!("\n> {prompt}"))?;
        let sent = chat.send(prompt).on_event(|event| screen.show(event)).await;
        match sent {
            Ok(reply) => screen.line(&format!("({})", screen::tokens(reply.usage())))?,
            Err(stopped) => {
                ending::show(&mut screen, &stopped)?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let messages = chat.transcript().messages().len();
    screen.line(&format!("\n{messages} messages, {} in all", screen::tokens(chat.usage())))?;
    Ok(ExitCode::SUCCESS)
}
