//! Float ends for integers.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(0.5..=3.0))] x: u32) -> u32 { x }

fn main() {}
