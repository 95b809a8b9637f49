//! The tool itself in a list.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn f() -> i64 { 3 }
fn list() -> Vec<harness::Tool> { tools![f::tool()] }

fn main() {}
