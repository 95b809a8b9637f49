//! On a function.

use harness::toolset;

#[toolset]
fn f() {}

fn main() {}
