//! A parameter described in two lines.

use harness::tool;

/// A.
/// # Arguments
/// - `x`: first
/// - `x`: second
#[tool(side_effects = "none")]
fn f(x: i64) -> i64 { x }

fn main() {}
