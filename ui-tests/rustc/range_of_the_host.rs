//! A range of what the host supplies.
//!
//! - at `&ToolContext`: `ToolContext` has no range

use harness::{ToolContext, tool};

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param(range(1..=3))] x: &ToolContext) { let _ = x; }

fn main() {}
