//! Every receiver but `&self`.

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(self) -> i64 { 3 }
/// Does it.
#[tool(side_effects = "none")]
fn g(&mut self) -> i64 { 3 }
/// Does it.
#[tool(side_effects = "none")]
fn h(self: std::sync::Arc<Self>) -> i64 { 3 } }

fn main() {}
