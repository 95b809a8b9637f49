//! Names next to the tool's.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Weather { t: i64 }
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WeatherParameters { city: std::string::String }
#[allow(dead_code)] type Result = i64; #[allow(dead_code)] struct String; #[allow(dead_code)] struct Vec; #[allow(dead_code)] trait Into {}
const WEATHER: i64 = 1;
/// Weather.
#[tool(side_effects = ["read", "network"])]
fn weather(/// Where
           p: WeatherParameters) -> Weather { let _ = p.city; Weather { t: WEATHER } }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![weather].remove(0);
    said(&t, &cx, r#"{"p":{"city":"x"}}"#, r#"json {"t":1}"#).await;
}
