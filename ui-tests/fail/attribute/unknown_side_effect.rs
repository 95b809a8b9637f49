//! A side effect with two letters swapped.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "raed")]
fn read_file(/// Path of the file
             path: String) -> String { path }

fn main() {}
