//! A pattern of a number.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "^[0-9]+$")] x: u32) { let _ = x; }

fn main() {}
