//! A title that turns the order of its letters.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", title = "Read\u{202e}eteleD")]
fn f() {}

fn main() {}
