//! The mistakes of all methods at once.

use harness::toolset;

struct S;
#[toolset]
impl S {
#[tool(side_effects = "raed")]
fn f(&self, x: i64) -> i64 { 3 }
/// Does it.
#[tool(sideeffects = "read")]
fn g(&self) {} }

fn main() {}
