//! Result<T, anyhow::Error>.

include!("../support.rs");

use harness::{tool, tools};

/// Parses.
#[tool(side_effects = "none")]
fn parse(/// Text
         text: String) -> anyhow::Result<i64> { Ok(text.parse::<i64>()?) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![parse].remove(0);
    said(&t, &cx, r#"{"text":"7"}"#, r#"json 7"#).await;
    said(&t, &cx, r#"{"text":"x"}"#, r#"failed invalid digit found in string"#).await;
}
