//! A comma too many.

use harness::tool;

/// Does it.
#[tool(side_effects = "read", , )]
fn f() {}
fn g() { f() }

fn main() {}
