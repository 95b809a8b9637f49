//! An empty title.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", title = "")]
fn f() {}

fn main() {}
