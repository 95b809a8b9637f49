//! A function named like the module that comes with the attribute.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn tool() -> i64 { 3 }

fn main() {}
