//! A package that knows `harness` through a facade only, and says so.
#![cfg(test)]

use std::sync::Arc;

use facade::{tool, tools, toolset};

/// One.
#[tool(side_effects = "none", crate = facade::harness)]
fn one() -> i64 {
    1
}

struct Numbers;

#[toolset(crate = facade::harness)]
impl Numbers {
    /// Two.
    #[tool(side_effects = "none")]
    async fn two(&self) -> i64 {
        2
    }
}

#[tokio::test]
async fn it_works() {
    let context = facade::ToolContext::new("c");
    let tools: Vec<facade::Tool> =
        tools![one].into_iter().chain(Arc::new(Numbers).tools()).collect();
    for (tool, number) in tools.iter().zip([1, 2]) {
        let said = tool.call(&context, serde_json::json!({})).await.unwrap();
        assert_eq!(said, facade::harness::ToolContent::Json(number.into()).into());
    }
    let none: Vec<facade::Tool> = tools![];
    assert!(none.is_empty());
}
