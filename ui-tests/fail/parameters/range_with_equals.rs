//! An equals sign for parentheses.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range = 1..5)] x: i64) -> i64 { x }

fn main() {}
