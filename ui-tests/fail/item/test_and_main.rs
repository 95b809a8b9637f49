//! Attributes that make something else of the function.

use harness::{tool, tools};

/// Is tried.
#[tool(side_effects = "none")]
#[test]
fn tried() {}
/// Is tried.
#[tool(side_effects = "none")]
#[tokio::test]
async fn tried_later() {}
/// Runs.
#[tool(side_effects = "none")]
#[tokio::main]
async fn runs() -> u8 { 1 }
fn list() -> Vec<harness::Tool> { tools![tried, tried_later, runs] }

fn main() {}
