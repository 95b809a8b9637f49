//! A name that is no string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", name = 3)]
fn f() {}

fn main() {}
