//! Synchronous function.

include!("../support.rs");

use harness::{tool, tools};

/// Adds two numbers.
#[tool(side_effects = "none")]
fn add(/// First number
       a: i64, /// Second number
       b: i64) -> i64 { a + b }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![add].remove(0);
    said(&t, &cx, r#"{"a":1,"b":2}"#, r#"json 3"#).await;
    schema(&t, "/properties/a/type", r#""integer""#);
    schema(&t, "/properties/a/description", r#""First number""#);
    schema(&t, "/required", r#"["a","b"]"#);
    schema(&t, "/additionalProperties", r#"false"#);
}
