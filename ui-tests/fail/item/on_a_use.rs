//! On a `use`, which survives.

use harness::tool;

#[tool(side_effects = "none")]
use std::fmt;
fn f(_: fmt::Error) {}

fn main() {}
