//! A length of a boolean.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(1..=5))] x: bool) { let _ = x; }

fn main() {}
