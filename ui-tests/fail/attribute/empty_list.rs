//! An empty list.

use harness::tool;

/// Does it.
#[tool(side_effects = [])]
fn f() {}

fn main() {}
