//! An output of a method that is not serialisable.
//!
//! - at `std::sync::Mutex<std::rc::Rc<std::fmt::Error>>`: cannot be returned from a tool

use harness::toolset;

struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn f(&self) -> std::sync::Mutex<std::rc::Rc<std::fmt::Error>> { todo!() } }

fn main() {}
