//! A path for a name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", handle = a::F)]
fn f() {}

fn main() {}
