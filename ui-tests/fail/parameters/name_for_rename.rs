//! `name` for `rename`.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(name = "y")] x: i64) -> i64 { x }

fn main() {}
