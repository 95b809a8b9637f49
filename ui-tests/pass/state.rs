//! State.

include!("../support.rs");

use harness::{State, tool, tools};

struct Db { n: i64 }
/// Reads the count.
#[tool(side_effects = "read")]
async fn count(db: State<Db>, /// Plus
               plus: i64) -> i64 { db.n + plus }

#[tokio::main]
pub(crate) async fn main() {
    let mut cx = harness::ToolContext::new("call_1");
    cx = cx.with(Db { n: 41 });
    let t = tools![count].remove(0);
    said(&t, &cx, r#"{"plus":1}"#, r#"json 42"#).await;
    schema(&t, "/properties/db", r#"absent"#);
}
