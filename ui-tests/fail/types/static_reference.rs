//! A reference that outlives the call.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: &'static str) -> bool { x.is_empty() }

fn main() {}
