//! A length below zero.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(-1..=5))] x: String) { let _ = x; }

fn main() {}
