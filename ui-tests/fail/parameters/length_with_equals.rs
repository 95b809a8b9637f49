//! A length that is no list.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length = 5)] x: String) { let _ = x; }

fn main() {}
