//! A parameter that may not be there.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
fn read_file(/// Path
             path: String, #[cfg(feature = "x")] /// Limit
             limit: u32) -> String { path }

fn main() {}
