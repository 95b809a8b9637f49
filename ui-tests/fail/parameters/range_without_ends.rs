//! A range of nothing.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range())] x: i64) -> i64 { x }

fn main() {}
