//! Two tools of one name.

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
/// Does it.
#[tool(side_effects = "none", name = "f")]
fn g(&self) -> i64 { 3 }}

fn main() {}
