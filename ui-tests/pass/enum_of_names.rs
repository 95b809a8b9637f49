//! Enum of names.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order { Asc, Desc }
/// Sorts.
#[tool(side_effects = "none")]
fn sort(/// Direction
        order: Order) -> bool { matches!(order, Order::Asc) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![sort].remove(0);
    said(&t, &cx, r#"{"order":"asc"}"#, r#"json true"#).await;
    said(&t, &cx, r#"{"order":"up"}"#, r#"bad"#).await;
    schema(&t, "/properties/order/enum", r#"["asc","desc"]"#);
}
