//! A key of a parameter in the attribute of a toolset.

use harness::toolset;

struct S;
#[toolset(default = 3)]
impl S {
    /// Does it.
    #[tool(side_effects = "none")]
    fn f(&self) -> i64 { 3 }
}

fn main() {}
