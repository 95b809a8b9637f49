//! A flag with a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", idempotent = "yes")]
fn f() {}

fn main() {}
