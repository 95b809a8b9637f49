//! A parameter described in two places.

use harness::tool;

/// A.
/// # Arguments
/// - `x`: first
#[tool(side_effects = "none")]
fn f(/// X
 x: i64) -> i64 { x }

fn main() {}
