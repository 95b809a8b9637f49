//! A misspelt key on a parameter.

use harness::tool;

/// Reads a file.
#[tool(side_effects = "read")]
fn read_file(/// Path
             #[param(defualt = "x")] path: String) -> String { path }

fn main() {}
