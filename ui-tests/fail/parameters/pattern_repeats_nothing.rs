//! A pattern that repeats nothing.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "*.rs")] x: String) { let _ = x; }

fn main() {}
