//! An error type that is no error.
//!
//! - at `Oops`: `Oops` cannot be the error of a tool

use harness::tool;

struct Oops;
/// Reads.
#[tool(side_effects = "read")]
fn read_file() -> Result<String, Oops> { Err(Oops) }

fn main() {}
