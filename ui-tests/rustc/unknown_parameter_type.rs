//! A parameter type that is not there.
//!
//! - at `Nope`: cannot find type `Nope`

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Nope) -> i64 { 3 }

fn main() {}
