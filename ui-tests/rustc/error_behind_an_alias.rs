//! An error that is none, behind an alias.
//!
//! - at `R<i64>`: cannot be returned from a tool

use harness::tool;

struct O;
type R<T> = Result<T, O>;
/// Does it.
#[tool(side_effects = "none")]
fn f() -> R<i64> { Err(O) }

fn main() {}
