//! Parentheses for an equals sign.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default(3))] x: i64) -> i64 { x }

fn main() {}
