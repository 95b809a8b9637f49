//! A float for an integer.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = 1.5)] x: u8) -> u8 { x }

fn main() {}
