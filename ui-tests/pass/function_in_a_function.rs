//! Function inside a function.

include!("../support.rs");

use harness::tool;

fn build() -> harness::Tool {
    #[derive(serde::Deserialize, schemars::JsonSchema)] struct P { n: i64 }
    /// Inner.
    #[tool(side_effects = "none")]
    fn inner(/// P
             p: P) -> i64 { p.n }
    inner::tool()
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = build();
    said(&t, &cx, r#"{"p":{"n":1}}"#, r#"json 1"#).await;
}
