//! Other attributes on the function.

include!("../support.rs");

use harness::{tool, tools};

/// Old.
#[inline]
#[must_use]
#[deprecated(note = "use new")]
#[allow(clippy::needless_return)]
#[cfg_attr(all(), allow(unused))]
#[tool(side_effects = "none")]
#[track_caller]
fn old(/// X
       #[allow(unused_variables)] x: i64) -> i64 { return 1; }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![old].remove(0);
    said(&t, &cx, r#"{"x":1}"#, r#"json 1"#).await;
}
