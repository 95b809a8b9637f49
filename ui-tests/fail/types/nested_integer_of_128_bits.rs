//! The same, inside.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Vec<Option<i128>>) -> bool { x.is_empty() }

fn main() {}
