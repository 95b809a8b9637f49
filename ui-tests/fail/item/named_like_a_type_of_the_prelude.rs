//! A function named like a type of the prelude.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn String() -> i64 { 3 }
fn text() -> String { "a".into() }

fn main() {}
