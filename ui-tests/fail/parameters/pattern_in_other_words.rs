//! A pattern by another name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(regex = "^a$")] x: String) { let _ = x; }

fn main() {}
