//! On a macro.

use harness::tool;

#[tool(side_effects = "none")]
macro_rules! a { () => {} }

fn main() {}
