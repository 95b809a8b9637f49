//! An answer of a type that has no schema.
//!
//! - at `Book`: derive `serde::Deserialize` and `schemars::JsonSchema` for it

use harness::Agent;
use serde::Deserialize;

#[derive(Deserialize)]
struct Book {
    title: String,
}

async fn ask(agent: &Agent) {
    let _ = agent.run("Which book?").answer::<Book>().await;
}

fn main() {}
