//! On a trait.

use harness::tool;

#[tool(side_effects = "none")]
trait A {}

fn main() {}
