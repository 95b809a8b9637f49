//! A title that is no string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", title = 3)]
fn f() {}

fn main() {}
