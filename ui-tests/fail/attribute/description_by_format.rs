//! A description that is made while the program runs.

use harness::tool;

#[tool(side_effects = "none", description = format!("Does {}", "it"))]
fn f() -> i64 { 3 }

fn main() {}
