//! Bool.

include!("../support.rs");

use harness::{tool, tools};

/// Negates.
#[tool(side_effects = "none")]
fn not(/// Value
       x: bool) -> bool { !x }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![not].remove(0);
    said(&t, &cx, r#"{"x":true}"#, r#"json false"#).await;
    said(&t, &cx, r#"{"x":"true"}"#, r#"bad"#).await;
}
