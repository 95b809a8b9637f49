//! Default.

include!("../support.rs");

use harness::{tool, tools};

/// Lists.
#[tool(side_effects = "read")]
fn list(/// How many
        #[param(default = 10)] limit: u32, /// Suffix
        #[param(default = ".rs")] suffix: String) -> String { format!("{limit}{suffix}") }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![list].remove(0);
    said(&t, &cx, r#"{}"#, r#"text 10.rs"#).await;
    said(&t, &cx, r#"{"limit":null}"#, r#"text 10.rs"#).await;
    said(&t, &cx, r#"{"limit":3,"suffix":"x"}"#, r#"text 3x"#).await;
    schema(&t, "/properties/limit/default", r#"10"#);
    schema(&t, "/properties/suffix/default", r#"".rs""#);
    schema(&t, "/required", r#"[]"#);
}
