//! A name in quotes.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", handle = "F")]
fn f() {}

fn main() {}
