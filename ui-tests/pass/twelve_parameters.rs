//! Twelve parameters.

include!("../support.rs");

use harness::{tool, tools};

/// Many.
#[tool(side_effects = "none")]
fn many(/// A
 a: i64, /// B
 b: i64, /// C
 c: i64, /// D
 d: i64, /// E
 e: i64, /// F
 f: i64, /// G
 g: i64, /// H
 h: i64, /// I
 i: i64, /// J
 j: i64, /// K
 k: i64, /// L
 l: i64) -> i64 { a+b+c+d+e+f+g+h+i+j+k+l }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![many].remove(0);
    said(&t, &cx, r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}"#, r#"json 12"#).await;
}
