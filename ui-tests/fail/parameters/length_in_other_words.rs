//! Both ends of a length as keys: one mistake.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(min_length = 1, max_length = 5)] x: String) { let _ = x; }

fn main() {}
