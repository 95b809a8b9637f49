//! Methods that take their value in another way, that wait, and that are not there.
//!
//! - at `Self::by_value`: this is not a `fn(&Arguments) -> Review`
//! - at `Self::exclusive`: it may take `&self` before them
//! - at `Self::later`: it is not `async`: it may block
//! - at `missing`: no function or associated item named `missing`
//! - at `elsewhere`: this is not a `fn(&Arguments) -> Review`

use harness::{message::Arguments, tool::Review, toolset};

fn elsewhere(_: &Arguments, _: &S) -> Review { Review::pass() }

struct S;
#[toolset]
impl S {
fn by_value(self, _: &Arguments) -> Review { Review::pass() }
fn exclusive(&mut self, _: &Arguments) -> Review { Review::pass() }
async fn later(&self, _: &Arguments) -> Review { Review::pass() }
/// Does it.
#[tool(side_effects = "write", review = Self::by_value)]
fn a(&self) {}
/// Does it.
#[tool(side_effects = "write", review = Self::exclusive)]
fn b(&self) {}
/// Does it.
#[tool(side_effects = "write", review = Self::later)]
fn c(&self) {}
/// Does it.
#[tool(side_effects = "write", review = Self::missing)]
fn d(&self) {}
/// Does it.
#[tool(side_effects = "write", review = elsewhere)]
fn e(&self) {}
}

fn main() {}
