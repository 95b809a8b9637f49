//! Struct.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Serialize)]
struct Report { ok: bool }
/// Reports.
#[tool(side_effects = "none")]
fn report() -> Report { Report { ok: true } }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![report].remove(0);
    said(&t, &cx, r#"{}"#, r#"json {"ok":true}"#).await;
}
