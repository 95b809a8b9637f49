//! The same, in a toolset.
//!
//! - at `Q`: `Q` cannot be a tool parameter

use harness::toolset;

struct Q; struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self, /// X
 x: Q) -> i64 { 3 } }

fn main() {}
