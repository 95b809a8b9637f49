//! On a struct.

use harness::toolset;

#[toolset]
struct S;

fn main() {}
