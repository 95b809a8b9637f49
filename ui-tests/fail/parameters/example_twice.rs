//! The same example twice.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(example = 10, example = 10)] x: u32) { let _ = x; }

fn main() {}
