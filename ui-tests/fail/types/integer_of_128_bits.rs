//! An integer that JSON does not have.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: u128) -> bool { x > 1 }

fn main() {}
