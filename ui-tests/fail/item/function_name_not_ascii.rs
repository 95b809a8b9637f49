//! A function whose name is no tool name.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "read")]
fn größe() -> String { String::new() }

fn main() {}
