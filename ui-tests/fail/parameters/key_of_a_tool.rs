//! Keys of `#[tool]` in `#[param]`.

use harness::tool;

/// Lists.
#[tool(side_effects = "read")]
fn list(/// How many
        #[param(timeout = "3s", side_effects = "read", title = "Limit", idempotent, review = look)] limit: u8) -> u8 { limit }

fn main() {}
