//! An error that is none, of an asynchronous function.
//!
//! - at `O`: `O` cannot be the error of a tool

use harness::tool;

struct O;
/// Does it.
#[tool(side_effects = "none")]
async fn f() -> Result<i64, O> { Err(O) }

fn main() {}
