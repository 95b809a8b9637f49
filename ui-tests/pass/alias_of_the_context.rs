//! Alias of the context type.

include!("../support.rs");

use harness::{tool, tools};

use harness::ToolContext as Cx;
/// Who.
#[tool(side_effects = "none")]
fn who(cx: &Cx, /// Hi
       hi: String) -> String { let _ = cx; hi }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![who].remove(0);
    said(&t, &cx, r#"{"hi":"x"}"#, r#"text x"#).await;
    schema(&t, "/properties/cx", r#"absent"#);
}
