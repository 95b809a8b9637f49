//! A parameter without a description.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "read")]
fn read_file(path: String) -> String { path }

fn main() {}
