//! A tool listed twice.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn calc() {}
fn g() { let _ = tools![calc, calc]; }

fn main() {}
