//! Unknown types inside of others: one error at each.
//!
//! - at `Nope`: cannot find type `Nope`
//! - at `HashMap`: cannot find type `HashMap`
//! - at `Pont`: cannot find type `Pont`
//! - at `T`: cannot find type `T`

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 a: Vec<Nope>, /// B
 b: Vec<HashMap<String, u8>>) -> Option<Pont> { None }
/// Does it.
#[tool(side_effects = "none")]
fn g() -> Vec<T> { Vec::new() }

fn main() {}
