//! Functions and methods that review calls, named by `#[tool(review = ..)]`.

use std::sync::Arc;

use harness::{message::Arguments, tool::Review, toolset};
use serde_json::{Value, json};

use crate::tool_macro::call;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Part {
    name: String,
}

#[toolset]
impl Part {
    /// Joins.
    #[tool(side_effects = "none", review = Self::long)]
    fn join(
        &self,
        /// Others
        others: Vec<Self>,
    ) -> String {
        others.iter().fold(self.name.clone(), |all, other| all + &other.name)
    }

    fn long(&self, arguments: &Arguments) -> Review {
        let others = arguments.get("others").and_then(Value::as_array).map_or(0, Vec::len);
        if others > 1 { Review::ask(format!("{} and {others}", self.name)) } else { Review::pass() }
    }
}

#[tokio::test]
async fn a_method_may_take_values_of_its_own_type_and_review_its_calls() {
    let part = Arc::new(Part { name: "a".to_owned() });
    let tool = part.tools().remove(0);
    assert_eq!(call(&tool, json!({"others": [{"name": "b"}, {"name": "c"}]})).await, "text abc");
    let review = |count: usize| {
        let arguments = json!({"others": vec![json!({"name": "b"}); count]});
        tool.review(&Arguments::from(arguments.as_object().unwrap().clone()))
    };
    assert_eq!(review(1), Some(Review::pass()));
    assert_eq!(review(2), Some(Review::ask("a and 2")));
}
