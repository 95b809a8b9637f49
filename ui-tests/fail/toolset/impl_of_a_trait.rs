//! The impl of a trait.

use harness::toolset;

struct S; trait A { fn f(&self); }
#[toolset]
impl A for S { fn f(&self) {} }

fn main() {}
