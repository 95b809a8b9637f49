//! A constant of the type itself, in a toolset.
//!
//! - at `Self::LOW..=5`: the range Self::LOW..=5 is empty

use harness::toolset;

struct S;
impl S { const LOW: i64 = 7; }
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self, /// A
 #[param(range(Self::LOW..=5))] a: i64) -> i64 { a }
}

fn main() {}
