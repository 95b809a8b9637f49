//! Uuid.

include!("../support.rs");

use harness::{tool, tools};

/// Gets.
#[tool(side_effects = "read")]
fn get(/// Id
       id: uuid::Uuid) -> bool { id.is_nil() }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![get].remove(0);
    said(&t, &cx, r#"{"id":"00000000-0000-0000-0000-000000000000"}"#, r#"json true"#).await;
    schema(&t, "/properties/id/format", r#""uuid""#);
}
