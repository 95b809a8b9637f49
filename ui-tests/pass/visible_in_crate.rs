//! Pub(crate) in a module.

include!("../support.rs");

use harness::tools;

mod inner {
    use harness::tool;
    /// One.
    #[tool(side_effects = "none")]
    pub(crate) fn one() -> i64 { 1 }
}
use inner::one;

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![one].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    assert_eq!(one(), 1);
}
