//! A literal for an alias, and a value of an own type.

include!("../support.rs");

use harness::{tool, tools};

type Title = String;
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order { Asc, Desc }
/// Lists.
#[tool(side_effects = "read")]
fn list(/// Title
        #[param(default = "t")] title: Title, /// Direction
        #[param(default = Order::Desc)] order: Order, /// Other direction
        #[param(default = Order::Asc)] other: Order, /// Positive
        #[param(default = 7)] positive: std::num::NonZeroU8, /// Shared
        #[param(default = ["a"])] shared: Box<[Title]>) -> String { format!("{title} {order:?} {other:?} {positive} {shared:?}") }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![list].remove(0);
    said(&t, &cx, r#"{}"#, r#"text t Desc Asc 7 ["a"]"#).await;
    said(&t, &cx, r#"{"order":"asc"}"#, r#"text t Asc Asc 7 ["a"]"#).await;
    schema(&t, "/properties/title/default", r#""t""#);
    schema(&t, "/properties/order/default", r#""desc""#);
    harness::ToolRegistry::new([t]).unwrap().check().unwrap();
}
