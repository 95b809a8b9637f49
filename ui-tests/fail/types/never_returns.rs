//! A function that never returns.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> ! { loop {} }

fn main() {}
