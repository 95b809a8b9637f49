//! A negative end for an unsigned type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(-1..=3))] x: u32) -> u32 { x }

fn main() {}
