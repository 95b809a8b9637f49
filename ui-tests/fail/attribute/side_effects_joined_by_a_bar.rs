//! Two side effects joined as in a pattern.

use harness::tool;

/// Does it.
#[tool(side_effects = "read" | "write")]
fn f() -> i64 { 3 }

fn main() {}
