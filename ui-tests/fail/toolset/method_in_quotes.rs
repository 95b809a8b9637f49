//! The name of the added method in quotes.

use harness::toolset;

struct S;
#[toolset(method = "more")]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
