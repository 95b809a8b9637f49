//! Generic helper, closures, `?` and early return in the body.

include!("../support.rs");

use harness::{tool, tools};

/// Doubles.
#[tool(side_effects = "none")]
fn double(/// Text
          text: String) -> Result<i64, std::num::ParseIntError> {
    fn twice<T: std::ops::Add<Output = T> + Copy>(t: T) -> T { t + t }
    if text.is_empty() { return Ok(0); }
    let n = (|s: &str| s.parse::<i64>())(&text)?;
    Ok(twice(n))
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![double].remove(0);
    said(&t, &cx, r#"{"text":"4"}"#, r#"json 8"#).await;
    said(&t, &cx, r#"{"text":""}"#, r#"json 0"#).await;
}
