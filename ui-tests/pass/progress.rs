//! Progress.

include!("../support.rs");

use harness::{tool, tools};

use harness::Progress;
/// Works.
#[tool(side_effects = "none")]
async fn work(progress: Progress) -> i64 { progress.report("half"); 1 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![work].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
    assert_eq!(cx.progress_log(), ["half"]);
}
