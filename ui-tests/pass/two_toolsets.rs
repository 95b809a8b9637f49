//! Two toolsets of one type, one of them with a name of its own.

include!("../support.rs");

use harness::toolset;

struct Files(u8);
#[toolset]
impl Files {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(&self) -> u8 { self.0 }
}
#[toolset(method = writing_tools)]
impl Files {
    /// Writes.
    #[tool(side_effects = "write")]
    async fn write(&self, /// What
                   what: u8) -> u8 { self.0 + what }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let files = std::sync::Arc::new(Files(1));
    said(&files.tools()[0], &cx, r#"{}"#, r#"json 1"#).await;
    said(&files.writing_tools()[0], &cx, r#"{"what":2}"#, r#"json 3"#).await;
}
