//! A default with too few items.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = [1], length(2..))] x: Vec<u8>) { let _ = x; }

fn main() {}
