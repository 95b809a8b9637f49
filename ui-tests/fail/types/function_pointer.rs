//! A function.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: fn(i64) -> i64) -> i64 { x(1) }

fn main() {}
