//! The attribute given twice.

use harness::tool;

/// A.
#[tool(side_effects = "none")]
#[tool(side_effects = "read")]
fn one() -> i64 { 1 }

fn main() {}
