//! Extracts a typed value from a text: `cargo run --example extract`. Unless `PROVIDER` is set, a scripted model answers.
mod plain;

use harness::{
    Agent, Event, Provider, policy::visible, provider_from_env, testing::ScriptedProvider,
    testing::reply,
};
use std::io::Write as _;

const USAGE: &str = "extract: reads a bill as a value of a type, checked
PROVIDER=anthropic, openai, chat_completions or local asks a real model; without it a scripted one answers.";

/// A bill that somebody has sent.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Bill {
    /// The person who wants the money.
    from: String,
    /// In cents.
    #[schemars(range(min = 1))]
    amount: u32,
}

async fn extract() -> anyhow::Result<()> {
    let says = [r#"{"from": "Ada", "amount": "12.50"}"#, r#"{"from": "Ada", "amount": 1250}"#];
    let mut out = std::io::stdout();
    let provider: Box<dyn Provider> = match std::env::var_os("PROVIDER") {
        Some(name) if !name.is_empty() => provider_from_env()?,
        _ => {
            writeln!(out, "PROVIDER is not set, so a scripted model answers.")?;
            Box::new(ScriptedProvider::new(says.map(|it| reply().text(it))))
        }
    };
    writeln!(out, "{} · {}", provider.name(), provider.model())?;
    let agent = Agent::builder(provider).build()?;
    let run = agent.run("Ada: 2 cakes, 12.50 in all.").on_event(show);
    let bill = run.answer::<Bill>().await?.into_value();
    Ok(writeln!(out, "{} cents to {}", bill.amount, bill.from)?)
}

/// Shows each answer, and why it was rejected. A closed output does not stop the run.
fn show(event: Event<'_>) {
    let mut out = std::io::stdout();
    let _ = match event {
        Event::TurnStarted { .. } => write!(out, "the model: "),
        Event::Text(text) => write!(out, "{}", visible(text)),
        Event::TurnEnded { .. } => writeln!(out),
        Event::AnswerRejected { faults, .. } => {
            let faults = visible(&faults.join("; "));
            writeln!(out, "rejected: {faults}. The model is told so and answers again.")
        }
        _ => Ok(()),
    };
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    plain::ended(USAGE, extract()).await
}
