//! An `idempotent` from which nothing follows.

use harness::tool;

/// Pays.
#[tool(side_effects = ["network", "mutate"], idempotent)]
fn pay() {}

fn main() {}
