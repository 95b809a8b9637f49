//! A comment on what the host supplies.
//!
//! - at `/// X`: `cx` is supplied by the host

use harness::{ToolContext, tool};

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 cx: &ToolContext) { let _ = cx; }

fn main() {}
