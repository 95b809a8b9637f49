//! A boolean for a string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = true)] x: String) -> String { x }

fn main() {}
