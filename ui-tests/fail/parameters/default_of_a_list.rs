//! A string for a list.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = "a")] x: Vec<String>) -> usize { x.len() }

fn main() {}
