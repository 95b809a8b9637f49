//! An empty description.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", description = " ")]
fn f() {}

fn main() {}
