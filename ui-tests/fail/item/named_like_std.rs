//! A function named like the standard library.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn std() {}

fn main() {}
