//! The page of a trace: what is in it, and that nothing that was recorded is part of its markup.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use harness::trace::{self, TraceEvent};
use hmac_sha256::Hash as Sha256;
use serde_json::{Value, json};

use crate::{event, finished, replied, started};

/// What a model, a tool or a user can say to break out of a page.
pub(crate) const HOSTILE: &[&str] = &[
    "</script><script>alert(1)</script>",
    "<!--<script>alert(2)",
    "]]><img src=x onerror=alert(3)>",
    "\"><svg onload=alert(4)>",
    "a\u{2028}alert(5)\u{2029}b\u{0}",
    "{data}{script}{style-hash}${alert(6)}",
    "javascript:alert(7)",
    "<a href=\"javascript:alert(8)\">x</a>",
    "__proto__",
    "constructor",
];

/// A trace in which these words are everywhere.
pub(crate) fn hostile() -> Vec<TraceEvent> {
    let mut events = Vec::new();
    for (at, words) in (0..).zip(HOSTILE) {
        let run = format!("{words}{at}");
        let words = *words;
        let answer = json!({"event": "model_replied", "turn": 1, "text": words, "reasoning": words,
            "calls": [{"call": words, "tool": words, "arguments": json!({(words): words}).to_string()}],
            "stop": "complete", "usage": {}, "context": {}, "provider": words, "model": words});
        for what in [
            started(words, words),
            json!({"event": "turn_started", "turn": 1}),
            answer,
            json!({"event": "call_waits", "call": words, "tool": words, "awaited": "approval",
                "question": words, "since_ms": 0}),
            finished(words, "failed", words),
            json!({"event": "retried", "attempt": 1, "of": 2, "wait_us": 5, "cause": words}),
            json!({"event": "interrupted", "cause": {"by": "failure", "error": words}, "text": words, "usage": {}}),
        ] {
            events.push(TraceEvent { run: run.clone(), ..event(at * 10, what) });
        }
    }
    events
}

/// The recorded data of a page.
pub(crate) fn data(page: &str) -> Value {
    let (_, behind) = page.split_once("id=\"data\">").expect("the data");
    let (json, _) = behind.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn what_is_recorded_is_no_part_of_the_markup() {
    let (events, none) = (hostile(), trace::page(&[]));
    for page in [
        trace::page(&events),
        trace::comparison_page((HOSTILE[0], &events), (HOSTILE[1], &events[1..])),
    ] {
        // The page is that of an empty trace around other data, which has no markup.
        let (before, behind) = page.split_once("id=\"data\">").expect("the data");
        let (json, after) = behind.split_once("</script>").expect("its end");
        assert_eq!(none.split_once("id=\"data\">").expect("the data").0, before);
        assert!(none.ends_with(&format!("</script>{after}")));
        assert!(!json.contains(['<', '\u{2028}', '\u{2029}', '\n']), "{json}");
        let data = data(&page);
        let read: Vec<TraceEvent> =
            serde_json::from_value(data["recordings"][0]["events"].clone()).expect("events");
        assert_eq!(read, events);
    }
}

#[test]
fn only_the_viewer_may_run_and_nothing_is_loaded() {
    let page = trace::page(&hostile());
    let (_, policy) = page.split_once("Content-Security-Policy\" content=\"").expect("a policy");
    let (policy, _) = policy.split_once('"').expect("its end");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    for (kind, begin, end) in
        [("script", "<script type=\"module\">", "</script>"), ("style", "<style>", "</style>")]
    {
        assert_eq!(page.matches(begin).count(), 1, "{kind}");
        let text = page.split_once(begin).expect(kind).1.split_once(end).expect(kind).0;
        let hash = STANDARD.encode(Sha256::hash(text.as_bytes()));
        assert!(policy.contains(&format!("{kind}-src 'sha256-{hash}'")), "{policy}");
    }
    assert_eq!(page.matches("<script").count(), 2, "the data and the viewer");
    assert!(!page.contains("://"), "it needs nothing else");
}

#[test]
fn a_turn_has_a_cost_where_the_model_has_a_price() {
    let answer = |model: &str| {
        let mut answer = replied(1, "Done.", &[]);
        answer["model"] = model.into();
        event(2, answer)
    };
    let turn = event(1, json!({"event": "turn_started", "turn": 1}));
    let data = data(&trace::page(&[turn, answer("claude-sonnet-5"), answer("m")]));
    let costs = data["recordings"][0]["costs"].as_object().expect("costs");
    assert_eq!(costs.keys().collect::<Vec<_>>(), ["1"]);
    assert!(costs["1"].as_f64().is_some_and(|cost| cost > 0.0005 && cost < 0.01), "{costs:?}");
}
