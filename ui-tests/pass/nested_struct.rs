//! Nested struct.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query { /// Text to find
    text: String, limit: Option<u32> }
/// Searches.
#[tool(side_effects = "read")]
fn search(/// What to search
          query: Query) -> String { format!("{}{:?}", query.text, query.limit) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![search].remove(0);
    said(&t, &cx, r#"{"query":{"text":"a"}}"#, r#"text aNone"#).await;
    schema(&t, "/properties/query/description", r#""What to search""#);
}
