//! A review that is a method, named without the type.

use harness::{message::Arguments, tool::Review, toolset};

struct S;
#[toolset]
impl S {
fn each(&self, _: &Arguments) -> Review { Review::pass() }
/// Does it.
#[tool(side_effects = "write", review = each)]
fn f(&self) -> i64 { 3 } }

fn main() { S.each(&Arguments::default()); }
