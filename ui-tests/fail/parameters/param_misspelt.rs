//! A misspelt attribute.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[parm(default = 3)] x: u32) -> u32 { x }

fn main() {}
