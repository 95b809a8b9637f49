//! Unknown types in signatures with lifetimes: one error at each.
//!
//! - at `Nope`: cannot find type `Nope`
//! - at `Gone`: cannot find type `Gone`
//! - at `Lost`: cannot find type `Lost`
//! - at `Pont`: cannot find type `Pont`

use harness::{tool, toolset};

/// Does it.
#[tool(side_effects = "none")]
fn f<'a>(/// A
 a: Vec<Nope>, /// B
 b: &'a str) -> usize { a.len() + b.len() }
/// Does it.
#[tool(side_effects = "none")]
fn g<'a: 'b, 'b>(/// A
 a: &'a Gone, /// B
 b: &'b str) -> Result<&'b str, Lost> { Ok(b) }
struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn h<'a>(&'a self, /// A
 a: Vec<Pont>) -> usize { a.len() }
}

fn main() {}
