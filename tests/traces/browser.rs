//! The pages in a real browser: see `viewer.mjs`.

use std::{fs, path::Path, process::Command};

use harness::trace::{self, TraceEvent};
use serde_json::json;

use crate::{event, event_of, finished, page::hostile, replied, started, story};

/// A run with this many calls, in turns of ten. One call in a thousand fails.
fn many(calls: usize) -> Vec<TraceEvent> {
    let mut events = vec![event(0, started("r", "Look at all of them."))];
    for turn in 0..calls / 10 {
        let at = u64::try_from(turn).expect("a number") * 20_000;
        let number = u32::try_from(turn + 1).expect("a number");
        let ids: Vec<String> = (0..10).map(|call| format!("c{}", turn * 10 + call)).collect();
        let asked: Vec<_> =
            ids.iter().map(|id| (&**id, json!({"id": id, "deep": {"list": [1, 2, 3]}}))).collect();
        events.push(event(at, json!({"event": "turn_started", "turn": number})));
        events.push(event(at + 9_000, replied(number, "Next.", &asked)));
        for (id, arguments) in &asked {
            events.push(event(
                at + 9_000,
                json!({"event": "call_started", "call": id, "tool": "look", "arguments": arguments.to_string(), "early": false}),
            ));
        }
        for id in &ids {
            let outcome = if id.ends_with("777") { "failed" } else { "succeeded" };
            let text = json!({"seen": id, "words": "x".repeat(300)}).to_string();
            events.push(event(at + 12_000, finished(id, outcome, &text)));
        }
    }
    events
}

/// Runs whose times are at the ends of what there is, and go back.
fn times() -> Vec<TraceEvent> {
    let ends = [(0, u64::MAX), (u64::MAX, 0), (1, u64::MAX - 1), (u64::MAX, u64::MAX)];
    let runs = (0..).zip(ends).flat_map(|(run, (from, to))| {
        let run = format!("r{run}");
        let waits = json!({"event": "retried", "attempt": 1, "of": 2, "wait_us": u64::MAX, "cause": "full"});
        [(from, replied(1, "", &[("c", json!({}))])), (to, finished("c", "failed", "")), (to, waits)]
            .map(|(at, what)| event_of(&run, at, what))
    });
    runs.collect()
}

/// A call that starts again with the answer to its question.
fn again() -> Vec<TraceEvent> {
    let begins = json!({"event": "call_started", "call": "a", "tool": "look", "arguments": "{}", "early": false});
    let all = [
        started("r", "Go."),
        replied(1, "", &[("a", json!({}))]),
        begins.clone(),
        json!({"event": "call_waits", "call": "a", "tool": "look", "awaited": "answer", "since_ms": 0}),
        json!({"event": "call_answered", "call": "a", "tool": "look", "answer": "1", "at_ms": 0}),
        begins,
        finished("a", "succeeded", "seen"),
    ];
    (0..).zip(all).map(|(at, what)| event(at * 1000, what)).collect()
}

/// Needs Chromium and, in the folder of `HARNESS_WEB_NPM`, the packages `puppeteer-core` and `axe-core`. With
/// `HARNESS_TRACE_PICTURES`, a folder that exists, it leaves the pages and pictures of them there.
#[tokio::test]
async fn the_viewer_works_in_a_browser() {
    let Some(npm) = std::env::var_os("HARNESS_WEB_NPM") else {
        eprintln!("skipped: `HARNESS_WEB_NPM` names no folder with the package `puppeteer-core`");
        return;
    };
    let temporary = tempfile::tempdir().expect("a folder");
    let pictures = std::env::var_os("HARNESS_TRACE_PICTURES");
    let folder = pictures.as_ref().map_or(temporary.path(), Path::new);
    let ((told, journal, agent), (other, ..)) = (story("Oslo").await, story("Bergen").await);
    let past = agent.inbox(&journal).trace("chat").await.expect("a trace");
    for (name, page) in [
        ("story", trace::page(&told)),
        ("journal", trace::page(&past)),
        ("hostile", trace::page(&hostile())),
        ("many", trace::page(&many(5_000))),
        ("few", trace::page(&many(50))),
        ("times", trace::page(&times())),
        ("again", trace::page(&again())),
        ("none", trace::page(&[])),
        ("compared", trace::comparison_page(("oslo.jsonl", &told), ("bergen.jsonl", &other))),
        ("same", trace::comparison_page(("one.jsonl", &told), ("two.jsonl", &told))),
    ] {
        fs::write(folder.join(format!("{name}.html")), page).expect("a file");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/viewer.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(npm).arg(folder).args(&pictures);
    match node.output() {
        Err(error) => eprintln!("skipped: node does not start: {error}"),
        Ok(output) => {
            let out = String::from_utf8_lossy(&output.stdout);
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{out}{err}");
            eprintln!("{out}");
        }
    }
}
