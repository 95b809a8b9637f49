//! A misspelt key.

use harness::toolset;

struct S;
#[toolset(crat = x)]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 } }

fn main() {}
