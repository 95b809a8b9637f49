//! The function stays an ordinary function.

include!("../support.rs");

use harness::{tool, tools};

/// Doubles.
#[tool(side_effects = "none")]
fn double(/// Number
          x: i64) -> i64 { x * 2 }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![double].remove(0);
    said(&t, &cx, r#"{"x":2}"#, r#"json 4"#).await;
    assert_eq!(double(2), 4); let f: fn(i64) -> i64 = double; assert_eq!([1, 2].map(f), [2, 4]); assert_eq!([1, 2].into_iter().map(double).sum::<i64>(), 6); let double = 3; assert_eq!(double, 3);
}
