//! A raw pointer.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: *const u8) -> bool { x.is_null() }

fn main() {}
