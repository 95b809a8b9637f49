//! On a struct, which survives.

use harness::tool;

/// A file.
#[tool(side_effects = "read")]
struct File { path: String }
fn f(f: File) -> String { f.path }

fn main() {}
