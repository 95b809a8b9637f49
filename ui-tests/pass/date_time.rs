//! DateTime<Utc>; and every other kind of date says how it is written, at every depth.

include!("../support.rs");

use harness::{tool, tools};

/// Year.
#[tool(side_effects = "none")]
fn year(/// When
        at: chrono::DateTime<chrono::Utc>) -> i32 { use chrono::Datelike; at.year() }

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Stay {
    /// When it begins
    from: chrono::DateTime<chrono::Utc>,
    until: Option<chrono::NaiveDateTime>,
}

/// Books.
#[tool(side_effects = "write")]
fn book(
    /// For how long
    stay: Stay,
    /// The day
    day: chrono::NaiveDate,
    /// The hour
    #[param(example = "08:15:00")]
    at: Option<chrono::NaiveTime>,
) -> bool {
    let _ = (stay.from, stay.until, day, at);
    true
}

#[tokio::main]
pub(crate) async fn main() {
    let cx = harness::ToolContext::new("call_1");
    let t = tools![year].remove(0);
    said(&t, &cx, r#"{"at":"2026-11-21T00:00:00Z"}"#, r#"json 2026"#).await;
    said(&t, &cx, r#"{"at":"soon"}"#, r#"bad"#).await;
    schema(&t, "/properties/at/format", r#""date-time""#);
    schema(&t, "/properties/at/description", r#""When (such as 2026-11-21T14:30:00Z)""#);

    let t = tools![book].remove(0);
    let until = r#""such as 2026-11-21T14:30:00, without a zone""#;
    let from = r#""When it begins (such as 2026-11-21T14:30:00Z)""#;
    schema(&t, "/properties/stay/properties/from/description", from);
    schema(&t, "/properties/stay/properties/until/description", until);
    schema(&t, "/properties/day/description", r#""The day (such as 2026-11-21)""#);
    // The program has an example of its own.
    schema(&t, "/properties/at/description", r#""The hour""#);
    schema(&t, "/properties/at/examples", r#"["08:15:00"]"#);
    let stay = r#"{"from":"2026-11-21T14:30:00Z","until":"2026-11-21T14:30:00"}"#;
    let arguments = format!(r#"{{"stay":{stay},"day":"2026-11-21","at":"14:30:00"}}"#);
    said(&t, &cx, &arguments, "json true").await;
}
