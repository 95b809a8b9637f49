//! The larger end first.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(5..=1))] x: i64) -> i64 { x }

fn main() {}
