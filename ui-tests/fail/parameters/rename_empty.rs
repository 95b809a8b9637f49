//! An empty name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(rename = "")] x: u32) -> u32 { x }

fn main() {}
