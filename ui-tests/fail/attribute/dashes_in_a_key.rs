//! A key with dashes.

use harness::tool;

/// Does it.
#[tool(side-effects = "none", time-out = "5s")]
fn f() -> i64 { 3 }

fn main() {}
