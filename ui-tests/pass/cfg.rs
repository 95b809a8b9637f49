//! Cfg'd tool.

include!("../support.rs");

use harness::{tool, tools};

/// Off.
#[cfg(feature = "no-such-feature")]
#[tool(side_effects = "none")]
fn off() -> i64 { 1 }
/// On.
#[tool(side_effects = "none")]
#[cfg(not(feature = "no-such-feature"))]
fn on() -> i64 { 1 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![on].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
}
