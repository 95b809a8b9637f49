//! Errors inside of a list and of a tuple that cannot be written: the way out is named.
//!
//! - at `Vec<Result<u8, std::io::Error>>`: with `.map_err(|err| err.to_string())`
//! - at `(u8, std::io::Result<u8>)`: an error inside of a list, a tuple or a map must be `serde::Serialize`

use harness::tool;

/// Does it.
#[tool(side_effects = "none")]
fn f() -> Vec<Result<u8, std::io::Error>> { vec![] }
/// Does it.
#[tool(side_effects = "none")]
fn g() -> (u8, std::io::Result<u8>) { (1, Ok(2)) }

fn main() {}
