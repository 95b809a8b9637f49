//! The name of the added method is a path.

use harness::toolset;

struct S;
#[toolset(method = S::more)]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
