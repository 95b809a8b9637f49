//! A name that no vendor takes.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(rename = "a b")] x: u32) -> u32 { x }

fn main() {}
