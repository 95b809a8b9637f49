//! Image content.

include!("../support.rs");

use harness::{tool, tools};

use harness::{Media, ToolContent};
/// Draws.
#[tool(side_effects = "none")]
fn draw() -> ToolContent { ToolContent::Image(Media::from_bytes("image/png", vec![1])) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![draw].remove(0);
    said(&t, &cx, r#"{}"#, r#"image image/png"#).await;
}
