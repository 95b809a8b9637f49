//! A float that is too large.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = 1e300)] a: f32) -> f32 { a }

fn main() {}
