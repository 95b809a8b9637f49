//! String.

include!("../support.rs");

use harness::{tool, tools};

/// Says.
#[tool(side_effects = "none")]
fn say() -> &'static str { "hi" }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![say].remove(0);
    said(&t, &cx, r#"{}"#, r#"text hi"#).await;
}
