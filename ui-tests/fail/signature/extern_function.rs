//! A function with an ABI.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
extern "C" fn read_file() -> i64 { 0 }

fn main() {}
