//! A description that is no string.

use harness::tool;

#[tool(side_effects = "none", description = 3)]
fn f() {}

fn main() {}
