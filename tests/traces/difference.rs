//! The first fact in which two traces differ.

use std::time::Duration;

use harness::{
    Agent, SideEffect,
    journal::MemoryJournal,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
    trace::{Difference, Trace, TraceEvent, comparison_text, first_difference, read},
};
use serde_json::json;

use crate::{Paper, event, event_of, finished, page::data, replied, started, story, tool};

fn at(difference: Option<Difference>) -> (Option<usize>, Option<usize>) {
    difference.map(|it| (it.left, it.right)).expect("a difference")
}

/// A run with two calls that run at the same time. `ids` are those of the vendor.
fn run(ids: [&str; 2], results: [&str; 2], swapped: bool, slow: u64) -> Vec<TraceEvent> {
    let [one, two] = ids;
    let calls = [(one, json!({"n": 1})), (two, json!({"n": 2}))];
    let mut ends =
        vec![finished(one, "succeeded", results[0]), finished(two, "succeeded", results[1])];
    if swapped {
        ends.reverse();
    }
    let mut all = vec![
        started("r", "Go."),
        json!({"event": "turn_started", "turn": 1}),
        replied(1, "", &calls),
    ];
    all.extend(ends);
    all.push(replied(2, "Done.", &[]));
    (0..).zip(all).map(|(at, what)| event(at * slow, what)).collect()
}

#[test]
fn times_ids_and_the_order_of_calls_at_the_same_time_do_not_differ() {
    let one = run(["a", "b"], ["x", "y"], false, 1);
    let other = run(["toolu_1", "toolu_2"], ["x", "y"], true, 900);
    assert_eq!(first_difference(&one, &other), None);
    let mut retried = one.clone();
    retried.insert(
        2,
        event(1, json!({"event": "retried", "attempt": 1, "of": 2, "wait_us": 1, "cause": "full"})),
    );
    assert_eq!(first_difference(&one, &retried), None);
    assert_eq!(first_difference(&[], &[]), None);
}

#[test]
fn the_first_fact_that_differs_is_found() {
    let one = run(["a", "b"], ["x", "y"], false, 1);
    // The result of the second call, which came first here.
    let other = run(["a", "b"], ["x", "z"], true, 1);
    assert_eq!(at(first_difference(&one, &other)), (Some(4), Some(3)));
    assert_eq!(at(first_difference(&one, &one[..5])), (Some(5), None));
    assert_eq!(at(first_difference(&[], &one)), (None, Some(0)));
    // The same results, but of each other's calls.
    let crossed = run(["a", "b"], ["y", "x"], false, 1);
    assert_eq!(at(first_difference(&one, &crossed)), (Some(3), Some(3)));
}

#[test]
fn what_differs_inside_of_an_agent_comes_before_the_result_of_its_call() {
    let with = |fetched: &str, said: &str, first: bool| {
        let outer = |at, what| event_of("outer", at, what);
        let mut child = started("child", "Read.");
        child["caller"] = json!({"run": "outer", "call": "c"});
        let inner = vec![
            event_of("inner", 3, child),
            event_of("inner", 4, replied(1, "", &[("d", json!({}))])),
            event_of("inner", 5, finished("d", "succeeded", fetched)),
        ];
        // The events of another call can come in between.
        let mut all = vec![
            outer(0, started("outer", "Go.")),
            outer(1, replied(1, "", &[("c", json!({})), ("e", json!({}))])),
        ];
        let end = outer(6, finished("e", "succeeded", "e"));
        match first {
            true => all.extend([end].into_iter().chain(inner)),
            false => all.extend(inner.into_iter().chain([end])),
        }
        all.push(outer(7, finished("c", "succeeded", said)));
        all
    };
    let one = with("12", "It is 12.", true);
    assert_eq!(first_difference(&one, &with("12", "It is 12.", false)), None);
    let other = with("13", "It is 13.", false);
    let (left, right) = at(first_difference(&one, &other));
    assert_eq!((left, right), (Some(5), Some(4)));
}

/// Runs that are inside of each other, or begin after what they contain.
#[test]
fn a_damaged_trace_has_an_end() {
    let inside = |run: &str, of: &str| {
        let mut start = started(run, "Go.");
        start["caller"] = json!({"run": of, "call": "c"});
        event_of(run, 1, start)
    };
    let end = |run: &str| event_of(run, 2, finished("c", "failed", run));
    let rings = [
        vec![inside("a", "a"), end("a")],
        vec![inside("a", "b"), inside("b", "a"), end("a"), end("b")],
        vec![end("a"), inside("b", "a"), inside("a", "b"), end("b")],
    ];
    for ring in &rings {
        assert_eq!(first_difference(ring, ring), None);
        let (left, right) = at(first_difference(ring, &[]));
        assert!(left.is_some() && right.is_none());
    }
    let deep: Vec<TraceEvent> = (0..5_000)
        .flat_map(|n| [inside(&format!("r{}", n + 1), &format!("r{n}")), end(&format!("r{n}"))])
        .collect();
    assert_eq!(first_difference(&deep, &deep), None);
}

#[tokio::test(start_paused = true)]
async fn two_real_runs_differ_where_the_tool_said_something_else() {
    let ((one, ..), (same, ..), (other, ..)) =
        (story("Oslo").await, story("Oslo").await, story("Bergen").await);
    assert_eq!(first_difference(&one, &same), None);
    let difference = first_difference(&one, &other).expect("a difference");
    let left = &one[difference.left.expect("an event")];
    let json = serde_json::to_string(left).expect("JSON");
    assert!(json.contains("model_replied") && json.contains("Oslo"), "{json}");
    let page = harness::trace::comparison_page(("one", &one), ("other", &other));
    let data = data(&page);
    assert_eq!(data["difference"][0]["event"], difference.left.expect("an event"));
    assert_eq!(data["difference"][1]["members"]["event"], "model_replied");
    assert_eq!(data["recordings"][1]["name"], "other");
}

/// A run in which an agent in a call waits for a person, beside another call. Returns what the runs have told, and what the
/// journal has.
async fn waiting(page: &str, twice: bool) -> (Vec<TraceEvent>, Vec<TraceEvent>) {
    let paper = Paper::default();
    let trace = Trace::default().to_writer(paper.clone());
    let reader = ScriptedProvider::new([
        reply().call("fetch", json!({"page": 1})),
        reply().call("burn", json!({"page": 1})),
        reply().text(format!("It was {page}.")),
    ]);
    let reader = Agent::builder(reader)
        .trace(trace.clone())
        .tools([
            tool("fetch", SideEffect::Read, 5, Ok(json!(page))),
            tool("burn", SideEffect::Mutate, 5, Ok(json!("ashes"))),
        ])
        .build()
        .expect("an agent");
    let model = ScriptedProvider::new([
        reply()
            .call("reader", json!({"task": "Read and burn."}))
            .call("look", json!({"at": "the sky"})),
        reply().text(format!("The reader said {page}.")),
    ]);
    let agent = Agent::builder(model)
        .trace(trace.clone())
        .tools([
            reader.as_tool("reader", "Reads."),
            tool("look", SideEffect::Read, 1, Ok(json!("blue"))),
        ])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.send("Burn it.").await.expect_err("it waits");
    drop(chat);
    let inbox = agent.inbox(&journal);
    let open = inbox.waiting_with_agents("chat").await.expect("calls");
    let (below, open) =
        open.into_iter().find(|(_, open)| open.question().is_some()).expect("a question");
    let yes = open.question().expect("a question").yes().by("ada");
    inbox.decide(&below, yes).await.expect("it waits");
    if twice {
        let mut chat = agent.open(&journal, "chat").await.expect("a chat");
        chat.resume().await.expect("an answer");
    }
    let past = inbox.trace("chat").await.expect("a trace");
    assert!(trace.flush(Duration::from_secs(30)), "{:?}", trace.problem());
    let lines = String::from_utf8(paper.0.lock().expect("unpoisoned").clone()).expect("UTF-8");
    (read(&lines).expect("events"), past)
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_is_compared_where_it_was_called() {
    let (one, past) = waiting("12", true).await;
    let same = first_difference(&one, &past);
    assert_eq!(same, None, "{}", comparison_text(("told", &one), ("past", &past)));
    // The result inside of the agent differs first, and then what everybody says of it.
    let ((other, other_past), (half, _)) = (waiting("13", true).await, waiting("12", false).await);
    for (one, other) in [(&one, &other), (&past, &other_past), (&half, &other)] {
        let (left, right) = at(first_difference(one, other));
        for (events, at) in [(one, left), (other, right)] {
            let event = &events[at.expect("an event")];
            let json = serde_json::to_string(event).expect("JSON");
            assert!(
                json.contains("call_finished") && json.contains("12") | json.contains("13"),
                "{json}"
            );
        }
    }
}

#[test]
fn a_text_shows_what_differs_and_not_how_it_begins() {
    let side = |end: &str, calls: &[(&str, serde_json::Value)]| {
        vec![
            event(0, started("r", "Go.")),
            event(1, replied(1, &format!("{}{end}", "The same for long. ".repeat(20)), calls)),
        ]
    };
    let call = [("a", json!({"n": 1}))];
    let text = comparison_text(("one", &side("Oslo", &call)), ("two", &side("Bergen", &call)));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[0], "one, event 2: model_replied");
    assert!(
        lines[1].starts_with("  text: .. ") && lines[1].ends_with("for long. Oslo\""),
        "{text}"
    );
    assert!(lines[3].ends_with("for long. Bergen\""), "{text}");
    let decided = |more: serde_json::Value| {
        let mut what = json!({"event": "call_decided", "call": "a", "by": {"decider": "program"}});
        what.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        let mut events = side("", &call);
        events.push(event(2, what));
        events
    };
    let (denied, allowed) = (decided(json!({"denied": "not today"})), decided(json!({})));
    assert_eq!(
        comparison_text(("one", &denied), ("two", &allowed)),
        "one, event 3: call_decided\n  denied: \"not today\"\ntwo, event 3: call_decided\n  denied: is missing\n"
    );
    let text = comparison_text(("one", &denied), ("two", &allowed[..2]));
    assert!(
        text.contains("denied: \"not today\"") && text.ends_with("two ends before.\n"),
        "{text}"
    );
    let same = comparison_text(("one", &denied), ("two", &denied));
    assert_eq!(same, "The facts of both traces are the same.\n");
}
