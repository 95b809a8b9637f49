//! A constant that lets no call begin.

use harness::tool;

const NONE: usize = 0;

/// Does it.
#[tool(side_effects = "none", at_once = NONE)]
fn f() {}

fn main() {}
