//! A type that no model can fill in, and no description: both are said.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(x: &mut u8, y: Vec<u128>) -> usize { usize::from(*x) + y.len() }

fn main() {}
