//! Something that is no key.

use harness::tool;

/// Does it.
#[tool(3 4)]
fn f() {}
fn g() { f() }

fn main() {}
