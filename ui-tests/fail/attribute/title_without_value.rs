//! A title without a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", title)]
fn f() {}

fn main() {}
