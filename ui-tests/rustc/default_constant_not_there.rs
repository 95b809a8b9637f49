//! A default from a constant that is not there.
//!
//! - at `NOPE`: cannot find value `NOPE`

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = NOPE)] x: u32) -> u32 { x }

fn main() {}
