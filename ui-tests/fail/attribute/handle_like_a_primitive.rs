//! A handle that would hide a type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", handle = u8)]
fn f() -> i64 { 3 }

fn main() {}
