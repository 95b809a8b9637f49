//! One file per tool: the module has the tool's name.

include!("../support.rs");

use harness::tools;

mod read_file {
    use harness::tool;
    /// Reads.
    #[tool(side_effects = "read")]
    pub fn read_file() -> i64 { 1 }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![read_file::read_file].remove(0);
    said(&t, &cx, r#"{}"#, r#"json 1"#).await;
}
