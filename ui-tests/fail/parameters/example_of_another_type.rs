//! An example of another type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(example = "ten")] x: u32) { let _ = x; }

fn main() {}
