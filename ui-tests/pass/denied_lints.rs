//! Denied lints.
#![deny(missing_docs, unused, warnings, missing_debug_implementations, unreachable_pub, clippy::all)]
#![forbid(unsafe_code)]

include!("../support.rs");

use harness::{tool, tools};

/// Adds.
#[tool(side_effects = "none")]
pub(crate) fn add(/// A
       a: i64) -> i64 { a }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![add].remove(0);
    said(&t, &cx, r#"{"a":1}"#, r#"json 1"#).await;
}
