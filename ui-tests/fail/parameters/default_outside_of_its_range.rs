//! A default outside of its range.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = 9, range(1..=3))] x: u8) -> u8 { x }

fn main() {}
