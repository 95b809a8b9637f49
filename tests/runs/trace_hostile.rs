//! A trace is read from a file that anybody may have written: showing it always ends, and takes
//! memory linear in its length.

use harness::trace::{self, TraceEvent};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Numbers at the ends of what there is, and some between.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        0..5_000_000_u64,
        any::<u64>()
    ]
}

/// Texts that are markup, control characters, numbers or much too long, and few, so that they meet.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "a",
            "b",
            "c",
            "<&\">",
            "\u{1b}[8m\u{0}",
            "{\"a\":[1]}",
            "😀"
        ])
        .prop_map(str::to_owned),
        Just("x".repeat(5_000)),
        Just("<\"&>".repeat(1_000)),
        Just("[".repeat(3_000)),
        ".{0,20}",
    ]
}

fn calls() -> impl Strategy<Value = Value> {
    let call = (text(), text(), text());
    prop::collection::vec(call, 0..4).prop_map(|calls| {
        let call =
            |(call, tool, arguments)| json!({"call": call, "tool": tool, "arguments": arguments});
        calls.into_iter().map(call).collect()
    })
}

fn happened() -> impl Strategy<Value = Value> {
    let usage = json!({"input": u64::MAX, "output": 0});
    let context = json!({"system": u64::MAX, "history": u64::MAX});
    let numbers = (number(), any::<u32>(), any::<bool>(), any::<f64>());
    (0..16_u8, text(), text(), text(), calls(), numbers).prop_map(
        move |(kind, a, b, c, calls, (number, turn, yes, cost))| {
            let turn = turn % 3;
            match kind {
                0 => json!({"event": "run_started", "unix_ms": number, "provider": a, "model": b,
                    "tools": [a, b, c], "said": c}),
                1 => json!({"event": "turn_started", "turn": turn}),
                2 => json!({"event": "answer_began", "turn": turn}),
                3 => json!({"event": "call_started", "call": a, "tool": b, "arguments": c,
                    "early": yes}),
                4 => json!({"event": "call_progressed", "call": a, "message": b}),
                5 => json!({"event": "model_replied", "turn": turn, "text": a, "reasoning": b,
                    "calls": calls, "stop": "complete", "usage": usage, "context": context,
                    "provider": b, "model": c}),
                6 => json!({"event": "call_decided", "call": a, "denied": b}),
                7 => json!({"event": "call_finished", "call": a, "outcome": "succeeded", "text": b,
                    "images": number, "ran_us": number}),
                8 => json!({"event": "call_finished", "call": a, "outcome": "in_doubt", "text": b}),
                9 => json!({"event": "call_dropped", "call": a}),
                10 => json!({"event": "retried", "attempt": turn, "of": turn, "wait_us": number,
                    "cause": a}),
                11 => json!({"event": "fell_back", "from": a, "to": b, "cause": c}),
                12 => json!({"event": "limit_near", "limit": "cost", "detail": a}),
                13 => json!({"event": "interrupted", "cause": {"by": "failure", "error": a},
                    "text": b, "calls": calls, "usage": usage}),
                14 => json!({"event": "run_ended", "outcome": a, "answered": yes, "turns": turn,
                    "usage": usage, "cost": cost}),
                _ => json!({"event": "lines_lost", "lines": number}),
            }
        },
    )
}

fn lines() -> impl Strategy<Value = String> {
    let event = (text(), number(), happened()).prop_map(|(run, at_us, mut event)| {
        let more = json!({"v": 1, "run": run, "at_us": at_us});
        let members = event.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        format!("{event}\n")
    });
    prop::collection::vec(event, 0..25).prop_map(|lines| lines.concat())
}

/// What an event may take as text beside its own words.
const ROW: usize = 4_000;

#[track_caller]
fn bounded(lines: &str, events: &[TraceEvent]) {
    let (page, text) = (trace::page(events), trace::pretty(events));
    // A letter is at most six letters on the page, and each event stands there once.
    let viewer = trace::page(&[]).len();
    assert!(
        page.len() <= viewer + 6 * lines.len() + 500 * events.len(),
        "{} of {}",
        page.len(),
        lines.len()
    );
    assert!(text.len() <= ROW * (events.len() + 1), "{} of {}", text.len(), lines.len());
    assert!(page.ends_with("</html>\n"));
    assert_eq!(trace::first_difference(events, events), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(40), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_trace_says_it_is_shown_within_bounds(lines in lines()) {
        let events = trace::read(&lines).expect("events");
        bounded(&lines, &events);
        // Also without what comes before an event.
        bounded(&lines, events.get(1..).unwrap_or_default());
    }

    #[test]
    fn whatever_a_file_holds_it_is_read_or_refused_in_few_words(
        before in prop::collection::vec(".{0,30}", 0..3),
        name in text(),
    ) {
        let unknown = json!({"v": 1, "run": "r", "at_us": 1, "event": name, "outcome": name});
        let lied = json!({"v": 1, "run": "r", "at_us": 1, "event": "call_finished", "call": "c",
            "outcome": name, "text": ""});
        for line in [before.join("\n"), unknown.to_string(), lied.to_string()] {
            match trace::read(&format!("{line}\n")) {
                Ok(events) => bounded(&line, &events),
                Err(err) => prop_assert!(format!("{err:?}").len() < 2_000, "{err}"),
            }
        }
    }
}

fn event(at_us: u64, what: Value) -> TraceEvent {
    let mut event = json!({"v": 1, "run": "r", "at_us": at_us});
    event.as_object_mut().expect("a map").extend(what.as_object().expect("a map").clone());
    serde_json::from_value(event).expect("an event")
}

/// So many events that to copy one text for each of them would fill the memory.
const MANY: usize = 20_000;

#[test]
fn many_events_that_name_the_same_thing_are_each_looked_at_once() {
    let long = "x".repeat(1_000_000);
    let started = |at| {
        let (call, early) = (format!("c{}", at % 3), at % 2 == 0);
        event(
            1,
            json!({"event": "call_started", "call": call, "tool": "t", "arguments": "{}", "early": early}),
        )
    };
    let finished = |_| {
        event(2, json!({"event": "call_finished", "call": "c", "outcome": "failed", "text": ""}))
    };
    let replied = json!({"event": "model_replied", "turn": 1, "text": long, "stop": "complete",
        "calls": [{"call": "c", "tool": long, "arguments": long}], "usage": {}, "context": {},
        "provider": "p", "model": "m"});
    let turns = |_| event(1, json!({"event": "turn_started", "turn": 1}));
    let began = |_| event(1, json!({"event": "answer_began", "turn": 2}));
    let runs = |at: usize| TraceEvent {
        run: format!("run_{at}"),
        ..event(1, json!({"event": "turn_started", "turn": 1}))
    };
    let replied = || vec![event(3, replied.clone())];
    let many: [(&str, Vec<TraceEvent>); 4] = [
        ("calls", (0..MANY).map(started).chain(replied()).collect()),
        ("results", replied().into_iter().chain((0..MANY).map(finished)).collect()),
        ("turns", (0..MANY).map(turns).chain((0..MANY).map(began)).chain(replied()).collect()),
        ("runs", (0..MANY / 10).map(runs).collect()),
    ];
    for (what, events) in many {
        let size = trace::page(&events).len();
        assert!(size <= 500 * events.len() + 4_000_000, "{what}: {size} bytes");
        assert_eq!(trace::first_difference(&events, &events), None, "{what}");
        assert!(trace::pretty(&events).len() <= ROW * events.len() + 8_000, "{what}");
    }
}
