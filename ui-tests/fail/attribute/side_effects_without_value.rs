//! A key alone.

use harness::tool;

/// Does it.
#[tool(side_effects)]
fn f() {}
fn g() { f() }

fn main() {}
