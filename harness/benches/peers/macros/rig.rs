#![allow(unused_imports)]
use rig::{rig_tool, tool::ToolExecutionError};
// --
#[rig_tool(
    description = "Finds text in a file.",
    params(path = "Path of the file", limit = "How many lines at most", words = "Whole words only"),
    required(path, words)
)]
pub fn find(path: String, limit: Option<u32>, words: bool) -> Result<String, ToolExecutionError> {
    Ok(format!("{path} {limit:?} {words}"))
}
