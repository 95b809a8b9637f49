//! Name and description override.

include!("../support.rs");

use harness::{tool, tools};

/// For readers of the code.
#[tool(side_effects = "none", name = "web-search", description = "For the model.")]
fn search_v2() -> i64 { 1 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![search_v2].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    assert_eq!((search_v2::TOOL.name, search_v2::TOOL.description), ("web-search", "For the model."));
}
