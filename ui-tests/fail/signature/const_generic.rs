//! A generic constant.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f<const N: usize>(/// X
 x: [u8; N]) -> usize { x.len() }

fn main() {}
