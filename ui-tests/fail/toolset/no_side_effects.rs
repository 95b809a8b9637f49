//! The required key is missing.

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool]
fn f(&self) -> i64 { 3 } }

fn main() {}
