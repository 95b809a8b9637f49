//! A name that is no string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(rename = 3)] x: u32) -> u32 { x }

fn main() {}
