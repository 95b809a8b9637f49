//! A description from a constant that is empty.
//!
//! - at `N`: tool `f` has no description

use harness::tool;

const N: &str = "";
#[tool(side_effects = "none", description = N)]
fn f() {}

fn main() {}
