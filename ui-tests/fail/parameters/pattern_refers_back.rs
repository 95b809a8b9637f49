//! A pattern that refers back.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = r"^(a)\1$")] x: String) { let _ = x; }

fn main() {}
