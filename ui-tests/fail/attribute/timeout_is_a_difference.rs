//! A time limit of several tokens.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = 60 - 5)]
fn f() -> i64 { 3 }

fn main() {}
