//! A side effect given twice.

use harness::tool;

/// Does it.
#[tool(side_effects = ["read","read"])]
fn f() {}

fn main() {}
