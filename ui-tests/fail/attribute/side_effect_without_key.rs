//! A side effect without its key.

use harness::tool;

/// Does it.
#[tool("read")]
fn f() {}

fn main() {}
