//! Description from a file.

include!("../support.rs");

use harness::{tool, tools};

#[doc = include_str!("description.txt")]
#[tool(side_effects = "none")]
fn about() -> i64 { 1 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![about].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    assert_eq!(about::TOOL.description.trim(), "From a file.");
}
