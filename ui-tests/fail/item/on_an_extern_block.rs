//! On an extern block.

use harness::tool;

#[tool(side_effects = "none")]
unsafe extern "C" { fn a(); }

fn main() {}
