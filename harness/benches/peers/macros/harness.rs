#![allow(unused_imports)]
use harness::tool;
// --
/// Finds text in a file.
#[tool(side_effects = "read")]
pub fn find(
    /// Path of the file
    path: String,
    /// How many lines at most
    limit: Option<u32>,
    /// Whole words only
    words: bool,
) -> String {
    format!("{path} {limit:?} {words}")
}
