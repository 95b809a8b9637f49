//! Strings as ends.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range("a"..="b"))] x: u32) -> u32 { x }

fn main() {}
