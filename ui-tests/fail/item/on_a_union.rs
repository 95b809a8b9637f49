//! On a union.

use harness::tool;

#[tool(side_effects = "none")]
pub union A { b: u8 }

fn main() {}
