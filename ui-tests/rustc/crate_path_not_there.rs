//! A crate path that leads nowhere.
//!
//! - at `nope`: cannot find module or crate `nope`

use harness::tool;

/// Does it.
#[tool(side_effects = "none", crate = nope::harness)]
fn f() {}

fn main() {}
