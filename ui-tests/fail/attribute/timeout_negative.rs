//! A negative time limit.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "-1s")]
fn f() {}

fn main() {}
