//! An example without a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(example)] x: u32) { let _ = x; }

fn main() {}
