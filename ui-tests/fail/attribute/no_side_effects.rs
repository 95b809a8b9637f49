//! The required key is missing.

use harness::tool;

/// Reads a file.
#[tool]
fn read_file() -> String { String::new() }

fn main() {}
