//! A generic block.

use harness::toolset;

struct S<T>(T);
#[toolset]
impl<T> S<T> {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
