//! Every element of the list is checked.

use harness::tool;

/// Does it.
#[tool(side_effects = ["read","wirte", 3, network])]
fn f() {}

fn main() {}
