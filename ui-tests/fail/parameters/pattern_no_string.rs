//! A pattern that is no string.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = 5)] x: String) { let _ = x; }

fn main() {}
