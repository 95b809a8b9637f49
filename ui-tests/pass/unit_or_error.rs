//! Result<(), E>.

include!("../support.rs");

use harness::{ToolError, tool, tools};

/// Clears.
#[tool(side_effects = "write")]
fn clear(/// Fail
         fail: bool) -> Result<(), ToolError> { if fail { Err(ToolError::Failed("no".into())) } else { Ok(()) } }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![clear].remove(0);
    said(&t, &cx, r#"{"fail":false}"#, r#"nothing"#).await;
    said(&t, &cx, r#"{"fail":true}"#, r#"failed no"#).await;
}
