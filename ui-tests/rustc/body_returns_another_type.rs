//! The body returns another type.
//!
//! - at `a`: mismatched types

use harness::tool;

/// A.
#[tool(side_effects = "none")]
fn one(/// Number
       a: i64) -> String { a }

fn main() {}
