//! A key of a tool on the block.

use harness::toolset;

struct S;
#[toolset(side_effects = "read")]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 } }

fn main() {}
