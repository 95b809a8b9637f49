//! A generic type inside of another.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f<T: Copy>(/// X
 x: Vec<T>) -> usize { x.len() }

fn main() {}
