//! A name that no vendor takes.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "read", name = "read file!")]
fn read_file() -> String { String::new() }

fn main() {}
