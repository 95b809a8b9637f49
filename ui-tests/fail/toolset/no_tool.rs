//! A toolset without a tool.

use harness::toolset;

struct S;
#[toolset]
impl S { fn f(&self) -> i64 { 3 } }
fn g() { let _ = std::sync::Arc::new(S).tools(); }

fn main() {}
