//! A function named like a crate.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn serde_json() {}

fn main() {}
