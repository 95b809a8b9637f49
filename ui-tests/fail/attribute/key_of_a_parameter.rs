//! Keys of `#[param]` in `#[tool]`.

use harness::tool;

/// Lists.
#[tool(side_effects = "read", default = 3, range(1..=9), length(1..=9), pattern = "x", example = 3, rename = "x")]
fn list(/// How many
        limit: u8) -> u8 { limit }

/// Lists.
#[tool(side_effects = "read", param(limit, default = 3))]
fn list_again(/// How many
              limit: u8) -> u8 { limit }

fn main() {}
