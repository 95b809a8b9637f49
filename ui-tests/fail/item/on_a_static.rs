//! On a static.

use harness::tool;

#[tool(side_effects = "none")]
static A: u8 = 3;

fn main() {}
