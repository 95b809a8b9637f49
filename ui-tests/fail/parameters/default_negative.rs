//! A negative default for an unsigned type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = -3)] x: u8) -> u8 { x }

fn main() {}
