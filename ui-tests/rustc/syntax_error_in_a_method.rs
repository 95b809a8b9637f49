//! A method that rustc cannot read: it says so, and we say nothing; the other tools are there.
//!
//! - at `y`: expected one of `:`, `@`, or `|`, found `y`

use std::sync::Arc;

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self, /// A
 #[param(default = 1)] x y: u8) {}
/// Does it.
#[tool(side_effects = "none")]
fn g(&self) {}
}

fn main() {
    let _ = Arc::new(S).tools();
}
