//! Context.

include!("../support.rs");

use harness::{ToolContext, tool, tools};

/// Who.
#[tool(side_effects = "none")]
async fn who(cx: &ToolContext, /// Greeting
             hello: String) -> String { let _ = cx; hello }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![who].remove(0);
    said(&t, &cx, r#"{"hello":"x"}"#, r#"text x"#).await;
    schema(&t, "/properties/cx", r#"absent"#);
    schema(&t, "/required", r#"["hello"]"#);
}
