//! On a macro call.

use harness::tool;

#[tool(side_effects = "none")]
std::thread_local! { static A: u8 = 3; }

fn main() {}
