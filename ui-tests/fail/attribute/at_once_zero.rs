//! No call could begin.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", at_once = 0)]
fn f() {}

fn main() {}
