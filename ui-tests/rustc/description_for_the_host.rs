//! A description of what the host supplies.
//!
//! - at ``/// - `cx`: the context``: `cx` is supplied by the host

use harness::{ToolContext, tool};

/// A.
///
/// # Arguments
/// - `cx`: the context
#[tool(side_effects = "none")]
fn one(cx: &ToolContext) -> i64 { let _ = cx; 1 }

fn main() {}
