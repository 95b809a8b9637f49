//! No parameters.

include!("../support.rs");

use harness::{tool, tools};

/// Now.
#[tool(side_effects = "read")]
fn now() -> i64 { 1 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![now].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    said(&t, &cx, r#"{"a":1}"#, r#"bad"#).await;
    schema(&t, "/type", r#""object""#);
    schema(&t, "/properties", r#"{}"#);
    schema(&t, "/required", r#"[]"#);
}
