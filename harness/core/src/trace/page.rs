//! Traces as an HTML page: the viewer's files, with the recorded events as JSON in them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac_sha256::Hash as Sha256;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    Happened, TraceEvent,
    difference::{ComparedFact, differing_facts},
};
use crate::models::Models;

const PAGE: &str = include_str!("viewer/viewer.html");
const STYLE: &str = include_str!("viewer/viewer.css");
const SCRIPT: &str = include_str!("viewer/viewer.js");

/// Makes a single HTML page of a trace. The page shows each run with its turns and calls on a time axis, and needs no
/// network and no other files. A row opens to everything that was recorded of it, and has a link of its own; failures,
/// agents in calls and words can be found by key. The page runs no script but its own, whatever the events contain.
///
/// The cost of a turn is estimated by the list prices of [`Models`]; the cost of a run is the recorded cost.
///
/// ```
/// let page = harness::trace::page(&[]);
/// assert!(page.starts_with("<!doctype html>"));
/// ```
pub fn page(events: &[TraceEvent]) -> String {
    to_html(&PageData { recordings: vec![Recording::of("", events)], difference: None })
}

/// Makes a page like [`page`] with two traces side by side, each with its name. The page begins at the
/// [first difference](super::first_difference).
///
/// ```
/// let page = harness::trace::comparison_page(("before", &[]), ("after", &[]));
/// assert!(page.starts_with("<!doctype html>"));
/// ```
pub fn comparison_page(left: (&str, &[TraceEvent]), right: (&str, &[TraceEvent])) -> String {
    let difference = Some(differing_facts(left.1, right.1));
    let recordings = vec![Recording::of(left.0, left.1), Recording::of(right.0, right.1)];
    to_html(&PageData { recordings, difference })
}

/// What the viewer reads.
#[derive(Serialize)]
struct PageData<'a> {
    recordings: Vec<Recording<'a>>,
    /// `None` if the page has one recording. If two recordings have no difference, the inner value is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Option<[Option<ComparedFact>; 2]>>,
}

#[derive(Serialize)]
struct Recording<'a> {
    name: &'a str,
    events: &'a [TraceEvent],
    /// The costs of turns, by the index of the event that ends the turn.
    costs: Map<String, Value>,
}

impl<'a> Recording<'a> {
    fn of(name: &'a str, events: &'a [TraceEvent]) -> Self {
        let models = Models::default();
        let cost = |event: &TraceEvent| match &event.what {
            Happened::ModelReplied { provider, model, usage, .. } => {
                models.price(provider, model, None)?.of(usage)
            }
            _ => None,
        };
        let mut costs = Map::new();
        for (at, event) in events.iter().enumerate() {
            if let Some(cost) = cost(event) {
                costs.insert(at.to_string(), cost.into());
            }
        }
        Self { name, events, costs }
    }
}

fn to_html(data: &PageData<'_>) -> String {
    // Events and numbers are always JSON.
    let json = serde_json::to_string(data).unwrap_or_default();
    let hash = |text: &str| format!("sha256-{}", STANDARD.encode(Sha256::hash(text.as_bytes())));
    let (head, foot) = PAGE.split_once("{data}").unwrap_or((PAGE, ""));
    let head = head
        .replace("{style-hash}", &hash(STYLE))
        .replace("{script-hash}", &hash(SCRIPT))
        .replace("{style}", STYLE);
    head + &without_markup(&json) + &foot.replace("{script}", SCRIPT)
}

/// JSON that is safe inside a `<script>` element. In JSON, `<` and the two line separators occur only within strings.
fn without_markup(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::{PAGE, SCRIPT, STYLE, without_markup};

    #[test]
    fn words_are_never_markup_and_stay_the_same_words() {
        for words in ["</script><script>alert(1)", "<!--<script>", "a\u{2028}b\u{2029}c"] {
            let json = serde_json::to_string(words).expect("JSON");
            let safe = without_markup(&json);
            assert!(!safe.contains(['<', '\u{2028}', '\u{2029}']), "{safe}");
            assert_eq!(serde_json::from_str::<String>(&safe).expect("JSON"), words);
        }
    }

    #[test]
    fn the_viewer_is_whole_and_needs_no_network() {
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--") && !STYLE.contains('<'));
        for place in ["{style-hash}", "{script-hash}", "{style}", "{data}", "{script}"] {
            assert_eq!(PAGE.matches(place).count(), 1, "{place}");
        }
        for text in [SCRIPT, STYLE] {
            for loads in ["http", "fetch", "import ", "@import", "url("] {
                assert!(!text.contains(loads), "{loads}");
            }
        }
    }
}
