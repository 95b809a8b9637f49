//! Unit.

include!("../support.rs");

use harness::{tool, tools};

/// Clears.
#[tool(side_effects = "write")]
fn clear() {}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![clear].remove(0);
    said(&t, &cx, r#"{}"#, r#"nothing"#).await;
}
