//! On a constant.

use harness::tool;

/// A limit.
#[tool(side_effects = "none")]
const LIMIT: usize = 3;
fn f() -> usize { LIMIT }

fn main() {}
