//! A generic function.

use harness::tool;

/// Prints.
#[tool(side_effects = "none")]
fn show<T: std::fmt::Display>(/// Value
                              value: T) -> String { value.to_string() }

fn main() {}
