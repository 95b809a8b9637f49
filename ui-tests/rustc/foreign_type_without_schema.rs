//! A type of another package that has no schema.
//!
//! - at `chrono::Month`: turn on its feature `serde`, and the feature of `schemars` that knows it

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: chrono::Month) -> u32 { x.number_from_month() }

fn main() {}
