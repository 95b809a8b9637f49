//! Parentheses for an equals sign.

use harness::tool;

/// Does it.
#[tool(side_effects("read"))]
fn f() {}

fn main() {}
