//! A `Result` in a `Result`, and one in an `Option`.

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> Result<Result<u8, String>, String> { Ok(Ok(1)) }
/// Does it.
#[tool(side_effects = "none")]
fn g() -> Option<std::io::Result<u8>> { None }

fn main() {}
