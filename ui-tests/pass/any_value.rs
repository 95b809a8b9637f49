//! Serde_json::Value.

include!("../support.rs");

use harness::{tool, tools};

/// Echoes.
#[tool(side_effects = "none")]
fn echo(/// Anything
        v: serde_json::Value) -> serde_json::Value { v }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![echo].remove(0);
    said(&t, &cx, r#"{"v":{"a":[1]}}"#, r#"json {"a":[1]}"#).await;
    schema(&t, "/properties/v/description", r#""Anything""#);
}
