//! A default of what the host supplies.
//!
//! - at `3`: `x` is supplied by the host

use harness::{ToolContext, tool};

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param(default = 3)] x: &ToolContext) { let _ = x; }

fn main() {}
