//! On an `extern crate`.

use harness::tool;

#[tool(side_effects = "none")]
extern crate serde;

fn main() {}
