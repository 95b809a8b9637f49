//! An attribute with nothing in it.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param()] a: f32) -> f32 { a }

fn main() {}
