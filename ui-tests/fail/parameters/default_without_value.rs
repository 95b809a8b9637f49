//! `default` alone.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default)] x: i64) -> i64 { x }

fn main() {}
