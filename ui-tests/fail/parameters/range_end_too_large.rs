//! An end that the type does not have.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(0..=300))] x: u8) -> u8 { x }

fn main() {}
