//! A type that borrows for some time.

use harness::toolset;

struct S<'a>(&'a str);
#[toolset]
impl S<'_> {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}

fn main() {}
