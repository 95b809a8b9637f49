//! Vec<T>.

include!("../support.rs");

use harness::{tool, tools};

/// Sums.
#[tool(side_effects = "none")]
fn sum(/// Numbers
       xs: Vec<i64>) -> i64 { xs.iter().sum() }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![sum].remove(0);
    said(&t, &cx, r#"{"xs":[1,2]}"#, r#"json 3"#).await;
    schema(&t, "/properties/xs/type", r#""array""#);
    schema(&t, "/properties/xs/items/type", r#""integer""#);
}
