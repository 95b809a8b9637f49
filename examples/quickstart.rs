//! The main job: a model with real tools writes a file, reads it back and works out a sum.
//!
//!     cargo run --example quickstart
//!
//! needs no key and no network: a scripted model on this machine answers over real HTTP, and the
//! tools really run. With `PROVIDER=anthropic` and `ANTHROPIC_API_KEY` the same program talks to
//! the service; `PROVIDER=openai` and `PROVIDER=local` likewise. Exit codes: 0 answered, 1 failed, 2 not set up.

mod offline;
mod screen;

use std::process::ExitCode;

use anyhow::Context as _;
use harness::{
    Agent, AnthropicProvider, Provider, provider_from_env,
    toolbox::{Files, calc},
    tools,
};
use screen::Screen;

const TASK: &str = "Write 'hello world' to a file, read it back, and work out 17 * 23 - 100.";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("{err:#}");
            let error = err.downcast_ref::<harness::Error>();
            let not_set_up = error.is_some_and(harness::Error::is_configuration);
            ExitCode::from(if not_set_up { 2 } else { 1 })
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let mut screen = Screen::stdout();
    // Keeps the scripted model alive until the end.
    let server;
    let provider: Box<dyn Provider> = if std::env::var_os("PROVIDER").is_some() {
        provider_from_env()?
    } else {
        screen.line(
            "No key was found, so a scripted model on this machine answers. For a real one: \
             PROVIDER=anthropic ANTHROPIC_API_KEY=.. cargo run --example quickstart",
        )?;
        server = offline::model().await.context("no port for the scripted model")?;
        Box::new(AnthropicProvider::builder().api_key("none").base_url(server.url()).build()?)
    };
    screen.line(&format!("{} · {}\n", provider.name(), provider.model()))?;

    let folder = tempfile::tempdir().context("no folder for the files")?;
    let files = Files::in_folder(folder.path())?;
    let agent = Agent::builder(provider)
        .system("You are concise. Use the tools; do not guess.")
        .tools(tools![calc])
        .tools(files.tools())
        .build()?;

    screen.line(&format!("> {TASK}"))?;
    let reply = agent.run(TASK).on_event(|event| screen.show(event)).await?;
    let turns = reply.turns();
    println!("\n{} · {turns} turns", screen::tokens(reply.usage()));
    Ok(())
}
