//! PathBuf.

include!("../support.rs");

use harness::{tool, tools};

/// Reads.
#[tool(side_effects = "read")]
fn read_file(/// Path
             path: std::path::PathBuf) -> String { path.display().to_string() }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![read_file].remove(0);
    said(&t, &cx, r#"{"path":"a/b"}"#, r#"text a/b"#).await;
    schema(&t, "/properties/path/type", r#""string""#);
}
