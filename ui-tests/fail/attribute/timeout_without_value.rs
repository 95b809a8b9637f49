//! A time limit without a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout)]
fn f() {}

fn main() {}
