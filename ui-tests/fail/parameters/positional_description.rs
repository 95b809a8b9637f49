//! A description without its key on a parameter.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param("How many")] x: u32) { let _ = x; }

fn main() {}
