//! A description from a constant that is no string.
//!
//! - at `N`: mismatched types

use harness::tool;

const N: i32 = 3;
#[tool(side_effects = "none", description = N)]
fn f() {}

fn main() {}
