//! Less than nothing.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", at_once = -1)]
fn f() {}

fn main() {}
