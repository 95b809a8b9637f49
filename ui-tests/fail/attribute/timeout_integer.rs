//! A time limit that is a number.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = 30)]
fn f() {}

fn main() {}
