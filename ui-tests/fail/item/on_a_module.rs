//! On a module, which survives.

use harness::tool;

#[tool(side_effects = "none")]
mod a { pub fn b() {} }
fn g() { a::b() }

fn main() {}
