//! Async function.

include!("../support.rs");

use harness::{tool, tools};

/// Waits.
#[tool(side_effects = "none")]
async fn wait(/// Milliseconds
              ms: u64) -> u64 { tokio::time::sleep(std::time::Duration::from_millis(ms)).await; ms }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![wait].remove(0);
    said(&t, &cx, r#"{"ms":1}"#, r#"json 1"#).await;
}
