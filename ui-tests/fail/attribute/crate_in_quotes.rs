//! A path in quotes.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", crate = "facade::harness")]
fn f() {}

fn main() {}
