//! The added method has the name of a tool.

use harness::toolset;

struct S;
#[toolset(method = f)]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
