//! A number for a path.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", crate = 3)]
fn f() {}

fn main() {}
