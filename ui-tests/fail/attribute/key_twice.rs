//! A key given twice.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "read", side_effects = "write")]
fn read_file() -> String { String::new() }

fn main() {}
