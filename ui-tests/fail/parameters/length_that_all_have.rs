//! A length that every text has.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(0..))] x: String) { let _ = x; }

fn main() {}
