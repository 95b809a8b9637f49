//! A title with a line break.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", title = "Two\nlines")]
fn f() {}

fn main() {}
