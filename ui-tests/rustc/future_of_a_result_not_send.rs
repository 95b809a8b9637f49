//! A future that stays in its thread, of a result.
//!
//! - at `f`: used across an await

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
async fn f() -> Result<std::rc::Rc<i64>, String> { let x = std::rc::Rc::new(3); async {}.await; Ok(x) }

fn main() {}
