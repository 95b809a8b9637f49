//! A key given twice, in two attributes.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = 1)] #[param(default = 2)] x: i64) -> i64 { x }

fn main() {}
