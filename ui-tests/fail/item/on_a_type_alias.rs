//! On a type alias.

use harness::tool;

#[tool(side_effects = "none")]
type A = u8;

fn main() {}
