//! A length that is open at both ends.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(..))] x: String) { let _ = x; }

fn main() {}
