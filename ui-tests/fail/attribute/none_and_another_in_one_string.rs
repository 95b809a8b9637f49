//! `none` beside another side effect in one string: the way out is no second mistake.

use harness::tool;

/// Does it.
#[tool(side_effects = "none, read")]
fn f() {}

fn main() {}
