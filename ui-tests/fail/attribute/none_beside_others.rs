//! `"none"` beside others.

use harness::tool;

/// Does it.
#[tool(side_effects = ["none","read"])]
fn f() {}

fn main() {}
