//! The error of a call names every wrong argument.

include!("../support.rs");

use harness::{ToolError, tool, tools};

use serde_json::json;

/// Lists.
#[tool(side_effects = "read")]
fn list(/// How many
        limit: u8, /// Where
        path: String) -> String { format!("{path}{limit}") }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![list].remove(0);
    let Err(ToolError::BadArguments(e)) = t.call(&cx, json!({"limit": 300, "pth": "x"})).await else { panic!() }; assert_eq!(e.len(), 3, "{e:?}"); assert!(e.iter().any(|m| m.starts_with("`limit`")) && e.iter().any(|m| m.starts_with("`path`")) && e.iter().any(|m| m.starts_with("`pth`")), "{e:?}");
}
