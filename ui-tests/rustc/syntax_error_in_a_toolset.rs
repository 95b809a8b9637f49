//! A block that rustc cannot read: it says so, and we say nothing, nor of its methods.
//!
//! - at `fn`: expected one of `,` or `>`, found keyword `fn`

use harness::toolset;

struct S;
#[toolset]
impl S< {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self, /// A
 x: u8) {}
}

fn main() {}
