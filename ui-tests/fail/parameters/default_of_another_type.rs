//! A default of another type.

use harness::tool;

/// Lists files.
#[tool(side_effects = "read")]
fn list(/// How many
        #[param(default = "ten")] limit: u32) -> u32 { limit }

fn main() {}
