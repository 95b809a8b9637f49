//! A range of a string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(1..=5))] x: String) -> String { x }

fn main() {}
