//! A range of an alias of a string.
//!
//! - at `Name`: `String` has no range

use harness::tool;

type Name = String;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(range(1..=3))] x: Name) -> String { x }

fn main() {}
