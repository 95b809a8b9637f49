//! A function named like a primitive type.

use harness::tool;

/// Picks a character.
#[tool(side_effects = "none")]
fn char() -> String { String::new() }

fn main() {}
