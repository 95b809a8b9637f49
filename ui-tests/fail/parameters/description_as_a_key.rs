//! A description as a key.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param(description = "y")] x: i64) -> i64 { x }

fn main() {}
