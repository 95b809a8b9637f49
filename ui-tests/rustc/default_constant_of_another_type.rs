//! A default from a constant of another type.
//!
//! - at `N`: mismatched types

use harness::tool;

const N: &str = "a";
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(default = N)] x: u32) -> u32 { x }

fn main() {}
