//! Comments that macros write: `concat!` is read like a comment, and of a file the rest of the comment is read.

include!("../support.rs");

use harness::{tool, tools};

#[doc = concat!("Finds ", "text.", "\n\n# Arguments\n- `path`: Where", "\n\n# Errors\nNever.")]
#[tool(side_effects = "none")]
fn find(path: String, #[doc = concat!("At ", "most")] limit: u8) -> String { path + &limit.to_string() }

#[doc = include_str!("description.txt")]
///
/// It has a list.
///
/// # Arguments
/// - `path`: Where
#[tool(side_effects = "none")]
fn from_a_file(path: String) -> String { path }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let list = tools![find, from_a_file];
    said(&list[0], &cx, r#"{"path":"a","limit":1}"#, "text a1").await;
    assert_eq!(find::TOOL.description, "Finds text.");
    schema(&list[0], "/properties/path/description", "\"Where\"");
    schema(&list[0], "/properties/limit/description", "\"At most\"");
    let description = list[1].schema().description.clone();
    assert!(description.starts_with("From a file.") && description.ends_with("It has a list."), "{description}");
    schema(&list[1], "/properties/path/description", "\"Where\"");
}
