//! F64 takes an integer literal.

include!("../support.rs");

use harness::{tool, tools};

/// Halves.
#[tool(side_effects = "none")]
fn half(/// Number
        x: f64) -> f64 { x / 2.0 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![half].remove(0);
    said(&t, &cx, r#"{"x":3}"#, r#"json 1.5"#).await;
    schema(&t, "/properties/x/type", r#""number""#);
}
