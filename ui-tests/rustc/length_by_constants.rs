//! Lengths that are constants: one is backwards, the end of another is no `usize`.
//!
//! - at `MOST..=LEAST`: no text or list has the length MOST..=LEAST
//! - at `WIDE`: mismatched types

use harness::tool;

const LEAST: usize = 2;
const MOST: usize = 5;
const WIDE: i64 = 5;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(MOST..=LEAST))] x: String) -> String { x }
/// Does it.
#[tool(side_effects = "none")]
fn g(/// X
 #[param(length(..=WIDE))] x: String) -> String { x }
/// Does it.
#[tool(side_effects = "none")]
fn h(/// X
 #[param(length(LEAST..MOST))] x: String) -> String { x }

fn main() {}
