//! A value that stays in its thread.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: std::rc::Rc<str>) -> i64 { 3 }

fn main() {}
