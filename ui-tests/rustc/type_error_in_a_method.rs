//! A type error in the body of a method.
//!
//! - at `"a"`: mismatched types

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { "a" } }

fn main() {}
