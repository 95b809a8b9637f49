//! A time limit without a unit.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "30")]
fn f() {}

fn main() {}
