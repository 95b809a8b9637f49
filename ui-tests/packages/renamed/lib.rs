//! A package that gives `harness` another name: nothing else is needed.
#![cfg(test)]

use std::sync::Arc;

use h::{ToolContext, tool, tools, toolset};

/// Adds.
#[tool(side_effects = "none")]
fn add(
    /// First
    a: i64,
    /// Second
    #[param(default = 1, range(0..=9))]
    b: i64,
) -> i64 {
    a + b
}

struct Files;

#[toolset]
impl Files {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(&self, _cx: &ToolContext) -> Result<String, std::io::Error> {
        Ok("read".to_owned())
    }
}

#[tokio::test]
async fn it_works() {
    let tools: Vec<h::Tool> = tools![add].into_iter().chain(Arc::new(Files).tools()).collect();
    let names: Vec<&str> = tools.iter().map(h::Tool::name).collect();
    assert_eq!(names, ["add", "read"]);
    let said = tools[0].call(&ToolContext::new("c"), serde_json::json!({"a": 1})).await.unwrap();
    assert_eq!(said, h::ToolContent::Json(2.into()).into());
}
