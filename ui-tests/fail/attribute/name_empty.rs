//! An empty name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", name = "")]
fn f() {}

fn main() {}
