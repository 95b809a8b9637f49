//! A length between floats.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(1.5..=5.0))] x: String) { let _ = x; }

fn main() {}
