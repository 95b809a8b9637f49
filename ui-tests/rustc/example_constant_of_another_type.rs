//! An example that is a value of another type.
//!
//! - at `TEN`: mismatched types

use harness::tool;

const TEN: &str = "10";
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(example = TEN)] x: u32) -> u32 { x }

fn main() {}
