//! A time limit in words.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "soon")]
fn f() {}

fn main() {}
