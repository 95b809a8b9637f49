//! A flag with a list.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", idempotent(yes))]
fn f() {}

fn main() {}
