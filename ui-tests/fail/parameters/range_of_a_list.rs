//! A range of a list.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(1..=3))] x: Vec<u8>) -> usize { x.len() }

fn main() {}
