//! A lint about the body stands in the body.
//!
//! - at `a`: unused variable: `a`
//! - at `b`: unused variable: `b`
#![deny(unused_variables)]

use harness::tool;

/// A.
#[tool(side_effects = "none")]
fn one(/// Number
       a: i64) -> i64 { let b = 1; 2 }

fn main() {}
