//! A pattern with a class that is not closed.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "^[a-z+$")] x: String) { let _ = x; }

fn main() {}
