//! A pattern without a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern)] x: String) { let _ = x; }

fn main() {}
