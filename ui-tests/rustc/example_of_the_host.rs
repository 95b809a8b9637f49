//! An example of what the host supplies.
//!
//! - at `3`: `x` is supplied by the host, so the model never sees an example

use harness::{ToolContext, tool};

/// Does it.
#[tool(side_effects = "none")]
fn f(#[param(example = 3)] x: &ToolContext) { let _ = x; }

fn main() {}
