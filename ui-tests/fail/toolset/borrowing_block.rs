//! A block of a type that borrows.

use harness::toolset;

struct S<'a>(&'a str);
#[toolset]
impl<'a> S<'a> {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
