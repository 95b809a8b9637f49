//! Nothing but a list of arguments.

use harness::tool;

/// # Arguments
/// - `x`: first
#[tool(side_effects = "none")]
fn f(x: i64) -> i64 { x }

fn main() {}
