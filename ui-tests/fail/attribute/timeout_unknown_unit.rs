//! A time limit with an unknown unit.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "30 parsecs")]
fn f() {}

fn main() {}
