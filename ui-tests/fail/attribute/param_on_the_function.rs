//! `#[param]` on the function.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
#[param(default = 3)]
fn f(/// X
 x: u32) -> u32 { x }

fn main() {}
