//! `mut` parameter.

include!("../support.rs");

use harness::{tool, tools};

/// Counts down.
#[tool(side_effects = "none")]
fn down(/// Number
        mut n: i64) -> i64 { n -= 1; n }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![down].remove(0);
    said(&t, &cx, r#"{"n":2}"#, r#"json 1"#).await;
}
