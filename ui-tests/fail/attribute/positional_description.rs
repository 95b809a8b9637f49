//! A description without its key.

use harness::tool;

#[tool("Adds two numbers", side_effects = "none")]
fn add() -> i64 { 3 }

fn main() {}
