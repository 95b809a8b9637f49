//! A method of a trait.

use harness::tool;

trait A {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
