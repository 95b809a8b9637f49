//! A description from a file that is empty.
//!
//! - at `f`: tool `f` has no description

use harness::tool;

#[doc = include_str!("/dev/null")]
#[tool(side_effects = "none")]
fn f() {}

fn main() {}
