//! A pattern of a list, and of an alias of a number.
//!
//! - at `"^a$"`: `x` is a `Vec<String>`, which has no pattern
//! - at `Count`: `u8` has no pattern

use harness::tool;

type Count = u8;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(pattern = "^a$")] x: Vec<String>) -> usize { x.len() }
/// Does it.
#[tool(side_effects = "none")]
fn g(/// X
 #[param(pattern = "^a$")] x: Count) -> u8 { x }

fn main() {}
