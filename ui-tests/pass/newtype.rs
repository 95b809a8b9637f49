//! Newtype.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City(String);
/// Weather.
#[tool(side_effects = ["read", "network"])]
fn weather(/// City
           city: City) -> String { city.0 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![weather].remove(0);
    said(&t, &cx, r#"{"city":"Oslo"}"#, r#"text Oslo"#).await;
}
