//! 128 bits by a path, and not zero.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 a: std::primitive::u128, /// B
 b: std::num::NonZeroI128, /// C
 c: std::num::NonZero<u128>) -> bool { a > 0 && b.get() > 0 && c.get() > 0 }

fn main() {}
