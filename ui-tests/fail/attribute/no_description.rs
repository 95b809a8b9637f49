//! A tool without a description.

use harness::tool;

#[tool(side_effects = "none")]
fn add(/// First number
       a: i64, /// Second number
       b: i64) -> i64 { a + b }

fn main() {}
