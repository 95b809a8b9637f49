//! A `ref` pattern.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 ref x: i64) -> i64 { *x }

fn main() {}
