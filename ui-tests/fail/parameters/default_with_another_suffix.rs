//! A number of another type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = 10u8)] a: u32, /// B
 #[param(default = b'b')] b: i64) -> i64 { i64::from(a) + b }

fn main() {}
