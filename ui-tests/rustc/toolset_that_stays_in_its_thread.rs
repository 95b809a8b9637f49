//! A value that several calls cannot use at once.
//!
//! - at `S`: the methods of `S` cannot be tools
//! - at `T`: take a `Mutex` or an atomic in place of a `Cell`

use harness::toolset;

struct S(std::rc::Rc<u8>);
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
async fn f(&self) -> u8 { *self.0 }
}
struct T(std::cell::Cell<u8>);
#[toolset]
impl T {
/// Does it.
#[tool(side_effects = "none")]
async fn f(&self, /// A
 a: &str) -> Result<u8, String> { Err(format!("{a}{}", self.0.get())) }
/// Does it.
#[tool(side_effects = "none")]
async fn g(&self) -> u8 { self.0.get() }
/// Does it.
#[tool(side_effects = "none")]
fn h(&self) -> u8 { self.0.get() }
}

fn main() {}
