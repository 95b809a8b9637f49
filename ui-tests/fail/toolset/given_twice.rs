//! The attribute given twice.

use harness::toolset;

struct S;
#[toolset]
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
