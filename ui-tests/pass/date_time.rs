//! DateTime<Utc>.

include!("../support.rs");

use harness::{tool, tools};

/// Year.
#[tool(side_effects = "none")]
fn year(/// When
        at: chrono::DateTime<chrono::Utc>) -> i32 { use chrono::Datelike; at.year() }

#[tokio::main]
async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![year].remove(0);
    said(&t, &cx, r#"{"at":"2026-11-21T00:00:00Z"}"#, r#"json 2026"#).await;
    said(&t, &cx, r#"{"at":"soon"}"#, r#"bad"#).await;
    schema(&t, "/properties/at/format", r#""date-time""#);
}
