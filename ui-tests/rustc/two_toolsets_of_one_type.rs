//! Two toolsets of one type that do not name their methods.
//!
//! - at `#[toolset]`: name_a_second_toolset_of_a_type_with_toolset_method_equals

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 }
}
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn g(&self) -> i64 { 3 }
}

fn main() {}
