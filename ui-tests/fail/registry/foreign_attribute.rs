//! An attribute that no tool in a list can have.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn f() -> i64 { 3 }
fn list() -> Vec<harness::Tool> { tools![#[inline] f] }

fn main() {}
