//! A pattern for a parameter.

use harness::tool;

/// Adds.
#[tool(side_effects = "none")]
fn add(/// Both numbers
       (a, b): (i64, i64)) -> i64 { a + b }

fn main() {}
