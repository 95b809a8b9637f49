//! An opaque return type that is not serialisable.
//!
//! - at `impl std::fmt::Display`: cannot be returned from a tool

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
fn read_file() -> impl std::fmt::Display { "x" }

fn main() {}
