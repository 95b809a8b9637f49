//! A method with the name of the one that is added.

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
fn tools(&self) {} }

fn main() {}
