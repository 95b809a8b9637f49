//! A documented parameter that does not exist.

use harness::tool;

/// Reads a file.
///
/// # Arguments
/// - `pth`: Path of the file
#[tool(side_effects = "read")]
fn read_file(path: String) -> String { path }

fn main() {}
