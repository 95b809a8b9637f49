//! A length that not even an empty list has.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(..0))] x: Vec<u8>) { let _ = x; }

fn main() {}
