//! A pattern that looks around.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = r"^(?!no)\w+$")] x: String) { let _ = x; }

fn main() {}
