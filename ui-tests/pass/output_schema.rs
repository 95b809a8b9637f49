//! Results with and without a schema, and titles.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Known { n: u8 }

#[derive(serde::Serialize)]
struct Unknown { n: u8 }

/// Has a schema.
#[tool(side_effects = "none", title = "Knows")]
async fn known(/** A text */ text: &str) -> Result<Known, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Known { n: text.parse()? })
}

/// Has none.
#[tool(side_effects = "none")]
fn unknown() -> Option<Unknown> { Some(Unknown { n: 1 }) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let tools = tools![known, unknown];
    assert_eq!(tools[0].output_schema().unwrap()["properties"]["n"]["type"], "integer");
    assert_eq!((tools[0].title(), tools[1].title()), (Some("Knows"), None));
    assert_eq!(tools[1].output_schema(), None);
    said(&tools[0], &cx, r#"{"text":"7"}"#, r#"json {"n":7}"#).await;
    said(&tools[1], &cx, r#"{}"#, r#"json {"n":1}"#).await;
}
