//! A name for what the host supplies.
//!
//! - at `"y"`: `x` is supplied by the host

use harness::{ToolContext, tool};

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param(rename = "y")] x: &ToolContext) { let _ = x; }

fn main() {}
