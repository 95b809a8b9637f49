//! A struct pattern.

use harness::tool;

struct P { a: i64 }
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 P { a }: P) -> i64 { a }

fn main() {}
