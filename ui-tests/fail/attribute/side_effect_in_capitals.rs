//! A side effect in capitals.

use harness::tool;

/// Does it.
#[tool(side_effects = "READ")]
fn f() {}

fn main() {}
