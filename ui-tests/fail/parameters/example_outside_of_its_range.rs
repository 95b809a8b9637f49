//! An example outside of the range.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(example = 10, example = 11, range(..=10))] x: u32) { let _ = x; }

fn main() {}
