//! A reference with nothing to borrow from.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Vec<&str>) -> usize { x.len() }

fn main() {}
