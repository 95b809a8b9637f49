//! Defaults that are too long and too short.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = "größer", length(..=5))] x: String) { let _ = x; }

fn main() {}
