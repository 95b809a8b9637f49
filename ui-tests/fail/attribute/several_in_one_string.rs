//! Several side effects in one string.

use harness::tool;

/// Does it.
#[tool(side_effects = "read, network")]
fn f() {}

fn main() {}
