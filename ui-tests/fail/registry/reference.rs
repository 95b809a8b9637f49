//! A reference in the list.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn calc() {}
fn g() { let _ = tools![&calc]; }

fn main() {}
