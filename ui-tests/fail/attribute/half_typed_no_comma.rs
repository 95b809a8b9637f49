//! A missing comma.

use harness::tool;

/// Does it.
#[tool(side_effects = "read" name = "x")]
fn f() {}
fn g() { f() }

fn main() {}
