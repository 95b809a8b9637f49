//! Several paragraphs, a list, a code block, sections.

include!("../support.rs");

use harness::{tool, tools};

/// Edits a file.
///
/// Rules:
/// - one
///   - nested
/// - two
///
/// ```json
/// {"path": "a"}   # not a heading
/// # neither is this
/// ```
///
/// # Arguments
/// - `path`: Path of
///   the file
/// * text - New text
///
/// # Examples
/// ```
/// // for people
/// ```
#[tool(side_effects = "write")]
fn edit(path: String, text: String) -> String { path + &text }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![edit].remove(0);
    said(&t, &cx, r#"{"path":"a","text":"b"}"#, r#"text ab"#).await;
    schema(&t, "/properties/path/description", r#""Path of the file""#);
    schema(&t, "/properties/text/description", r#""New text""#);
    let d = edit::TOOL.description; assert!(d.starts_with("Edits a file.\n\nRules:\n- one\n  - nested\n- two\n\n```json") && d.ends_with("# neither is this\n```"), "{d}");
}
