//! An attribute of serde on a parameter.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
fn read_file(#[serde(rename = "file")] /// Path
             path: String) -> String { path }

fn main() {}
