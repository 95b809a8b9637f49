//! A time limit of nothing.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "0s")]
fn f() {}

fn main() {}
