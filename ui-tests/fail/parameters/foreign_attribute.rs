//! An attribute of another library.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[arg(long)] x: u32) -> u32 { x }

fn main() {}
