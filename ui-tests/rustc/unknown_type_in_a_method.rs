//! An unknown type in a method.
//!
//! - at `Nope`: cannot find type `Nope`

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self, /// A
 a: Vec<Nope>) -> usize { a.len() }
}

fn main() {}
