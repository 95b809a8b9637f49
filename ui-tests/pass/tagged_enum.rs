//! Tagged enum.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape { Circle { r: f64 }, Square { side: f64 } }
/// Area.
#[tool(side_effects = "none")]
fn area(/// Shape
        shape: Shape) -> f64 { match shape { Shape::Circle { r } => r * r, Shape::Square { side } => side * side } }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![area].remove(0);
    said(&t, &cx, r#"{"shape":{"kind":"square","side":2.0}}"#, r#"json 4.0"#).await;
}
