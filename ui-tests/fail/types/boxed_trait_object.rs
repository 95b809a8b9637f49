//! A trait object in a box.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Box<dyn std::fmt::Display>) -> String { x.to_string() }

fn main() {}
