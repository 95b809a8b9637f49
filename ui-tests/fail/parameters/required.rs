//! A key that a parameter does not need.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(required)] a: u8) -> u8 { a }

fn main() {}
