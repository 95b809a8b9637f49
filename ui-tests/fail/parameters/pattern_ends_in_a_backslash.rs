//! A pattern that ends in a backslash.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "a\\")] x: String) { let _ = x; }

fn main() {}
