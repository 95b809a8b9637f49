//! A comment with nothing in it.

use harness::tool;

///
#[tool(side_effects = "none")]
fn one() -> i64 { 1 }

fn main() {}
