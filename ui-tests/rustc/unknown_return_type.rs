//! A return type that is not there.
//!
//! - at `Nope`: cannot find type `Nope`

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> Nope { 3 }

fn main() {}
