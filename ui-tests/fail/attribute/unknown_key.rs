//! A key with a letter missing.

use harness::tool;

#[tool(side_effects = "none", desciption = "Adds two numbers")]
fn add() -> i64 { 1 }

fn main() {}
