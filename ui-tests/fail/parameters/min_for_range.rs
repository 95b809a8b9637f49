//! `min` for `range`.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(min = 1)] x: i64) -> i64 { x }

fn main() {}
