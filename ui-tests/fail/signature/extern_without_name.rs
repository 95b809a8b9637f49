//! An ABI without a name.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
extern fn f() {}

fn main() {}
