//! An answer of a type that cannot be read and has no schema.
//!
//! - at `Book`: derive `serde::Deserialize` and `schemars::JsonSchema` for it

use harness::Agent;

struct Book {
    title: String,
}

async fn ask(agent: &Agent) {
    let _ = agent.run("Which book?").answer::<Book>().await;
}

fn main() {}
