//! A method without a body.

use harness::tool;

trait A {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64;
}

fn main() {}
