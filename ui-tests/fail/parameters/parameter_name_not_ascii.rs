//! A parameter whose name is no name for the model.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 größe: u32) -> u32 { größe }

fn main() {}
