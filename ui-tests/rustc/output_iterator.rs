//! An iterator as the output.
//!
//! - at `impl Iterator<Item = i64>`: cannot be returned from a tool

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> impl Iterator<Item = i64> { 0..3 }

fn main() {}
