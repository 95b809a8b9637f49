//! A pattern with a class that nothing is in.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "^[]$")] x: String) { let _ = x; }

fn main() {}
