#![allow(unused_imports)]
use aisdk::{core::Tool, macros::tool};
// --
/// Finds text in a file.
#[tool]
pub fn find(path: String, limit: Option<u32>, words: bool) -> Tool {
    Ok(format!("{path} {limit:?} {words}"))
}
