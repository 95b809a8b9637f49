//! A side effect as a key.

use harness::tool;

/// Does it.
#[tool(read)]
fn f() {}

fn main() {}
