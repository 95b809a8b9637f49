//! Cancellation token.

include!("../support.rs");

use harness::{tool, tools};

use harness::CancellationToken;
/// Works.
#[tool(side_effects = "none")]
async fn work(cancel: CancellationToken) -> bool { cancel.is_cancelled() }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![work].remove(0);
    said(&t, &cx, r#"{}"#, r#"json false"#).await;
    schema(&t, "/properties", r#"{}"#);
}
