//! A name in a list that is not there.
//!
//! - at `calk`: cannot find type `calk`

use harness::{tool, tools};

/// Does it.
#[tool(side_effects = "none")]
fn calc() {}
fn g() { let _ = tools![calk]; }

fn main() {}
