//! Side effects in const context.

include!("../support.rs");

use harness::{tool, tools};

/// Reads.
#[tool(side_effects = "read")]
fn peek() -> i64 { 1 }
const SAFE: bool = peek::TOOL.side_effects.is_read_only();
const _: () = assert!(SAFE);

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![peek].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
}
