//! Methods on a struct.

include!("../support.rs");

use harness::toolset;

struct Files { root: String }
#[toolset]
impl Files {
    /// Reads a file.
    #[tool(side_effects = "read")]
    async fn read(&self, /// Path
                  path: &str) -> Result<String, std::io::Error> { Ok(format!("{}/{path}", self.root)) }
    fn helper(&self) -> usize { self.root.len() }
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = std::sync::Arc::new(Files { root: "r".into() }).tools().remove(0);
    said(&t, &cx, r#"{"path":"a"}"#, r#"text r/a"#).await;
    schema(&t, "/properties/path/type", r#""string""#);
    let f = Files { root: "r".into() }; assert_eq!(f.helper(), 1); assert_eq!(f.read("x").await.unwrap(), "r/x");
}
