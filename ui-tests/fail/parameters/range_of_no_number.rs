//! A range with no number in it.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(1..1))] x: i64) -> i64 { x }

fn main() {}
