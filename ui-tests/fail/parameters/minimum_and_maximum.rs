//! Both ends of a range as keys: one mistake.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(minimum = 1, maximum = 3)] a: u8) -> u8 { a }

fn main() {}
