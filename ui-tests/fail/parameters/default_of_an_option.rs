//! A default for an `Option` of another type.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = "a")] x: Option<u32>) -> bool { x.is_some() }

fn main() {}
