//! A pattern with nothing in it.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "")] x: String) { let _ = x; }

fn main() {}
