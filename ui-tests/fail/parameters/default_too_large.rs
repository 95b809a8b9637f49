//! A default that the type cannot hold.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = 300)] x: u8) -> u8 { x }

fn main() {}
