//! A review of a whole block.

use harness::{message::Arguments, tool::Review, toolset};

struct S;
#[toolset(review = Self::each)]
impl S {
fn each(&self, _: &Arguments) -> Review { Review::pass() }
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> i64 { 3 } }

fn main() { S.each(&Arguments::default()); }
