//! Errors inside of lists, tuples, maps and own types fail the call and keep what succeeded.

include!("../support.rs");

use std::collections::BTreeMap;

use harness::{tool, tools};

/// Fetches several.
#[tool(side_effects = "read")]
fn list(/// Whether one fails
        fails: bool) -> Vec<Result<u8, String>> {
    vec![Ok(1), if fails { Err("down".to_owned()) } else { Ok(2) }]
}
/// Fetches two.
#[tool(side_effects = "read")]
async fn pair() -> Result<(u8, Result<u8, &'static str>), std::io::Error> { Ok((1, Err("gone"))) }
/// Fetches by name.
#[tool(side_effects = "read")]
fn map() -> BTreeMap<&'static str, Option<Result<(), u8>>> { BTreeMap::from([("a", Some(Err(7)))]) }
/// Reports.
#[tool(side_effects = "read")]
fn report() -> Report { Report { verdict: Verdict::Err("a verdict is no error") } }

#[derive(serde::Serialize)]
struct Report { verdict: Verdict }
#[derive(serde::Serialize)]
enum Verdict { Err(&'static str) }

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![list, pair, map, report];
    let failed = |errors: &str, all: &str| format!(
        "failed The tool ran to its end, but parts of what it returned are errors:\n{errors}\n\
         All other parts succeeded and stand: repeat only what failed. This is what it returned:\n{all}"
    );
    said(&t[0], &cx, r#"{"fails":false}"#, r#"json [{"Ok":1},{"Ok":2}]"#).await;
    said(&t[0], &cx, r#"{"fails":true}"#, &failed("- at `/1`: down", r#"[{"Ok":1},{"Err":"down"}]"#)).await;
    said(&t[1], &cx, "{}", &failed("- at `/1`: gone", r#"[1,{"Err":"gone"}]"#)).await;
    said(&t[2], &cx, "{}", &failed("- at `/a`: 7", r#"{"a":{"Err":7}}"#)).await;
    said(&t[3], &cx, "{}", r#"json {"verdict":{"Err":"a verdict is no error"}}"#).await;
}
