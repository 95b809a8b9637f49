//! Re-export through a prelude.

include!("../support.rs");

use harness::tools;

mod a { pub mod b { use harness::tool;
    /// One.
    #[tool(side_effects = "none")]
    pub fn one() -> i64 { 1 } } }
mod prelude { pub use super::a::b::one; }
use prelude::*;

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![one].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    assert_eq!(a::b::one::tool().name(), "one");
}
