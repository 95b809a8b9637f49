//! NaN and the infinities are errors.

include!("../support.rs");

use harness::{tool, tools};

#[derive(serde::Serialize)]
struct Share { of: Option<u8>, parts: Vec<f64> }
/// Divides.
#[tool(side_effects = "none")]
fn divide(/// A
          a: f64, /// B
          b: f64) -> f64 { a / b }
/// Shares.
#[tool(side_effects = "none")]
fn share(/// A
         a: f64) -> Share { Share { of: None, parts: vec![1.0, 1.0 / a] } }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![divide, share];
    said(&t[0], &cx, r#"{"a":1,"b":2}"#, r#"json 0.5"#).await;
    let begin = "failed the tool ran to its end, but what it returned cannot be written as JSON";
    said(&t[0], &cx, r#"{"a":0,"b":0}"#, &format!("{begin}: it is NaN, which JSON does not have")).await;
    said(&t[1], &cx, r#"{"a":2}"#, r#"json {"of":null,"parts":[1.0,0.5]}"#).await;
    let parts = "failed The tool ran to its end, but parts of what it returned are errors:\n\
                 - at `/parts/1`: it is infinite, which JSON does not have\n\
                 All other parts succeeded and stand: repeat only what failed. \
                 This is what it returned:\n{\"of\":null,\"parts\":[1.0,null]}";
    said(&t[1], &cx, r#"{"a":0}"#, parts).await;
}
