//! A length whose smaller end comes last.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(5..=1))] x: String) { let _ = x; }

fn main() {}
