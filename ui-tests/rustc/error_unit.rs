//! `()` as an error.
//!
//! - at `()`: `()` cannot be the error of a tool

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> Result<i64, ()> { Err(()) }

fn main() {}
