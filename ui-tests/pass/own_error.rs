//! Result<T, MyError>.

include!("../support.rs");

use harness::{tool, tools};

#[derive(Debug, thiserror::Error)]
enum MyError { #[error("no such file: {0}")] Missing(String) }
/// Reads.
#[tool(side_effects = "read")]
async fn read_file(/// Path
                   path: String) -> Result<String, MyError> { Err(MyError::Missing(path)) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![read_file].remove(0);
    said(&t, &cx, r#"{"path":"a"}"#, r#"failed no such file: a"#).await;
}
