//! A boolean where a string is needed.

use harness::tool;

/// Reads a file.
#[tool(side_effects = true)]
fn read_file() -> String { String::new() }

fn main() {}
