//! A parameter without a name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 _: i64) {}

fn main() {}
