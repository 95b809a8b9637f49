//! On an unsafe impl.

use harness::tool;

struct A;
#[tool(side_effects = "none")]
unsafe impl Send for A {}

fn main() {}
