//! A name that is too long.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]
fn f() {}

fn main() {}
