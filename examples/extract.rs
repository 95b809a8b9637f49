//! Takes a value out of a text: `cargo run --example extract`. Unless `PROVIDER` is set, a scripted model answers.
mod plain;

use harness::{Agent, provider_from_env, testing::ScriptedProvider, testing::reply};
use std::io::Write as _;

/// A bill that somebody has sent.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Bill {
    /// Who wants the money.
    from: String,
    /// In cents.
    #[schemars(range(min = 1))]
    amount: u32,
}

async fn extract() -> anyhow::Result<()> {
    let says = [r#"{"from": "Ada", "amount": "12.50"}"#, r#"{"from": "Ada", "amount": 1250}"#];
    let agent = match std::env::var_os("PROVIDER") {
        Some(_) => Agent::builder(provider_from_env()?).build()?,
        None => Agent::builder(ScriptedProvider::new(says.map(|it| reply().text(it)))).build()?,
    };
    let bill = agent.run("Ada: 2 cakes, 12.50 in all.").answer::<Bill>().await?.into_value();
    Ok(writeln!(std::io::stdout(), "{} cents to {}", bill.amount, bill.from)?)
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    plain::ended("extract: reads a bill as a value of a type, checked", extract()).await
}
