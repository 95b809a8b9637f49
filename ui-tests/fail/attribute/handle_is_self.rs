//! A handle that is no name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", handle = Self)]
fn f() -> i64 { 3 }

fn main() {}
