//! A comment with nothing in it.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(///
 x: i64) -> i64 { x }

fn main() {}
