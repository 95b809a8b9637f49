//! A semicolon in the list.

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn calc() {}
fn h() {}
fn g() { let _ = tools![calc; 3]; }

fn main() {}
