//! An unsafe function.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
unsafe fn read_file() -> String { String::new() }

fn main() {}
