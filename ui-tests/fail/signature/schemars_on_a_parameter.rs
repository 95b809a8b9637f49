//! An attribute of schemars on a parameter.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[schemars(range(min = 1))] x: i64) -> i64 { x }

fn main() {}
