//! A type error in the body.
//!
//! - at `"text"`: mismatched types

use harness::tool;

/// A.
#[tool(side_effects = "none")]
fn one(/// Number
       a: i64) -> i64 {
    let b: i64 = "text";
    a + b
}

fn main() {}
