//! Bytes that the model would read as numbers.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
fn read(/// Path
        path: &str) -> std::io::Result<Vec<u8>> { std::fs::read(path) }
/// Reads.
#[tool(side_effects = "read")]
fn boxed() -> Option<Box<[u8]>> { None }
/// Reads.
#[tool(side_effects = "read")]
fn lent() -> &'static [u8] { b"x" }

fn main() {}
