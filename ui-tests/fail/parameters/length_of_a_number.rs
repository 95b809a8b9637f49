//! A length of a number.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(1..=5))] x: u32) { let _ = x; }

fn main() {}
