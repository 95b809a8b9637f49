//! An asynchronous function with an ABI.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
async extern "C" fn f() {}

fn main() {}
