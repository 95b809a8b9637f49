//! A parameter without a size.
//!
//! - at `str`: cannot be known at compilation time

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: str) -> bool { x.is_empty() }

fn main() {}
