//! A parameter whose type is left out.
//!
//! - at `_`: not allowed within types on item signatures

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: _) -> i64 { x }

fn main() {}
