//! A number is no text.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", at_once = "2")]
fn f() {}

fn main() {}
