//! A line of the list with nothing in it.

use harness::tool;

/// A.
/// # Arguments
/// - `x`:
#[tool(side_effects = "none")]
fn f(x: i64) -> i64 { x }

fn main() {}
