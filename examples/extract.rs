//! Takes values out of a text: `cargo run --example extract` asks a scripted model.

use harness::{Agent, provider_from_env, testing::ScriptedProvider, testing::reply};
use schemars::JsonSchema;
use serde::Deserialize;

/// A bill that somebody has sent.
#[derive(Debug, Deserialize, JsonSchema)]
struct Bill {
    /// Who wants the money.
    from: String,
    /// In cents.
    #[schemars(range(min = 1))]
    amount: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = match std::env::var_os("PROVIDER") {
        Some(_) => Agent::builder(provider_from_env()?).build()?,
        None => Agent::builder(ScriptedProvider::new([
            reply().text(r#"{"from": "Ada's Bakery", "amount": "12.50"}"#),
            reply().text(r#"{"from": "Ada's Bakery", "amount": 1250}"#),
        ]))
        .build()?,
    };
    let bill = agent.run("Ada's Bakery: 2 cakes, 12.50 in all.").answer::<Bill>().await?;
    println!("{} cents to {}", bill.value().amount, bill.value().from);
    Ok(())
}
