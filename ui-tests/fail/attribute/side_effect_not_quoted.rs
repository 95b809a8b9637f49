//! A side effect without quotes.

use harness::tool;

/// Reads a file.
#[tool(side_effects = read)]
fn read_file() -> String { String::new() }

fn main() {}
