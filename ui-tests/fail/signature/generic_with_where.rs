//! A generic type with a bound elsewhere.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f<T>(/// X
 x: T) -> String where T: ToString { x.to_string() }

fn main() {}
