//! A missing comma.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn calc() {}
/// Does it.
#[tool(side_effects = "none")]
fn add() {}
fn g() { let _ = tools![calc add]; }

fn main() {}
