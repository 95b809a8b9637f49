//! Half-typed: no equals sign. The caller still sees the function.

use harness::tool;

/// Reads a file.
#[tool(side_effects "read")]
fn read_file() -> String { String::new() }
fn caller() -> String { read_file() }

fn main() {}
