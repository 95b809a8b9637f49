//! A list of what is not serialisable.
//!
//! - at `Vec<Q>`: `Vec<Q>` cannot be returned from a tool

use harness::tool;

struct Q;
/// Does it.
#[tool(side_effects = "none")]
fn f() -> Vec<Q> { vec![] }

fn main() {}
