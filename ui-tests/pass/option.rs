//! Option<T> may be left out or null.

include!("../support.rs");

use harness::{tool, tools};

/// Greets.
#[tool(side_effects = "none")]
fn greet(/// Name
         name: Option<String>) -> String { name.unwrap_or("you".into()) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![greet].remove(0);
    said(&t, &cx, r#"{}"#, r#"text you"#).await;
    said(&t, &cx, r#"{"name":null}"#, r#"text you"#).await;
    said(&t, &cx, r#"{"name":"a"}"#, r#"text a"#).await;
    schema(&t, "/required", r#"[]"#);
}
