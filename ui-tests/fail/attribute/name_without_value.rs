//! A key without its value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", name)]
fn f() {}

fn main() {}
