//! Half-typed: a part of a value.

use harness::tool;

/// Does it.
#[tool(side_effects = "rea")]
fn f() {}
fn g() { f() }

fn main() {}
