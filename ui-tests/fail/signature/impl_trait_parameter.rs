//! `impl Trait` as a parameter.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
fn read_file(/// Path
             path: impl AsRef<std::path::Path>) -> String { path.as_ref().display().to_string() }

fn main() {}
