//! A trait object.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: &dyn std::fmt::Display) -> String { x.to_string() }

fn main() {}
