//! Whatever a server sends, the memory that an answer takes is limited.

use harness::{
    Error, ErrorKind,
    provider::ResponseSizeLimits,
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::decoded::{named, read};

/// Decodes events until an answer of 1 MiB is exceeded. `event` makes the event with this number.
fn fails(wire: &str, start: &[Value], event: impl Fn(usize) -> Value) -> Error {
    let limits = ResponseSizeLimits { response: 1 << 20, ..ResponseSizeLimits::default() };
    fails_within(limits, wire, start, event)
}

fn fails_within(
    limits: ResponseSizeLimits,
    wire: &str,
    start: &[Value],
    event: impl Fn(usize) -> Value,
) -> Error {
    macro_rules! hear {
        ($decoder:expr) => {{
            let mut decoder = $decoder;
            decoder.push(named(start).as_bytes()).unwrap();
            (0..40_000).find_map(|number| {
                let result = decoder.push(format!("data: {}\n\n", event(number)).as_bytes());
                while decoder.next_event().is_some() {}
                result.err()
            })
        }};
    }
    let failed = match wire {
        "anthropic" => hear!(anthropic::decoder(limits)),
        "responses" => hear!(responses::decoder(limits)),
        _ => hear!(chat::decoder(limits, Default::default())),
    };
    let err = failed.unwrap_or_else(|| panic!("{wire} takes all of {}", event(7)));
    assert_eq!(err.kind(), ErrorKind::TooLarge, "{wire}: {err}");
    err
}

#[test]
fn an_answer_has_so_many_parts_at_most() {
    let parts = |wire, start: &[Value], event: fn(usize) -> Value| {
        let err = fails(wire, start, event);
        assert!(err.message().contains("4096 parts"), "{err}");
    };
    parts(
        "anthropic",
        &[],
        |at| json!({"type": "content_block_start", "index": at, "content_block": {"type": "text"}}),
    );
    parts(
        "anthropic",
        &[],
        |at| json!({"type": "content_block_delta", "index": at, "delta": {"type": "text_delta"}}),
    );
    parts("responses", &[], |at| {
        json!({"type": "response.output_item.added", "output_index": at,
            "item": {"type": "reasoning"}})
    });
    let delta = |at| json!({"type": "response.output_text.delta", "output_index": at, "delta": ""});
    parts("responses", &[], delta);
    parts(
        "responses",
        &[],
        |at| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": at}),
    );
    parts("chat", &[], |at| {
        let calls = json!([{"index": at, "function": {"name": ""}}]);
        json!({"choices": [{"delta": {"tool_calls": calls}}]})
    });
}

#[test]
fn what_is_kept_for_later_counts() {
    let kept = |wire, start: &[Value], event: Value| {
        let err = fails(wire, start, |_| event.clone());
        assert!(err.message().contains("ResponseSizeLimits::response"), "{err}");
    };
    let long = "x".repeat(100);
    let block = |kind| {
        [json!({"type": "content_block_start", "index": 0, "content_block": {"type": kind}})]
    };
    let delta = |delta| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let cited = delta(json!({"type": "citations_delta", "citation": {"cited_text": long}}));
    kept("anthropic", &block("text"), cited);
    let input = delta(json!({"type": "input_json_delta", "partial_json": long}));
    kept("anthropic", &block("server_tool_use"), input);
    let summary = delta(json!({"type": "compaction_delta", "content": long}));
    kept("anthropic", &block("compaction"), summary);
    // Calls that are not announced yet: without a name, or what may be an object in a string.
    let arguments = json!({"type": "response.function_call_arguments.delta", "output_index": 0,
        "delta": long});
    kept("responses", &[], arguments);
    let chunk = |delta| json!({"choices": [{"delta": delta}]});
    let call = json!([{"index": 0, "id": "a", "function": {"name": "b", "arguments": long}}]);
    kept("chat", &[], chunk(json!({"tool_calls": call})));
    let detail = json!([{"type": "reasoning.encrypted", "data": long}]);
    kept("chat", &[], chunk(json!({"reasoning_details": detail})));
}

#[test]
fn arguments_that_are_held_back_have_the_limit_of_arguments() {
    let limits = ResponseSizeLimits { arguments: 1 << 10, ..ResponseSizeLimits::default() };
    let fails = |wire, start: &[Value], event: Value| {
        let err = fails_within(limits, wire, start, |_| event.clone());
        assert!(err.message().contains("ResponseSizeLimits::arguments"), "{wire}: {err}");
    };
    let list = "[".repeat(100);
    let delta =
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": list});
    fails("responses", &[], delta);
    let call = json!([{"index": 0, "id": "a", "function": {"name": "b", "arguments": list}}]);
    fails("chat", &[], json!({"choices": [{"delta": {"tool_calls": call}}]}));
    let block = json!({"type": "tool_use", "id": "a", "name": "", "input": {}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = json!({"type": "input_json_delta", "partial_json": list});
    fails(
        "anthropic",
        &[start],
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
    );
}

/// Each of these takes many minutes if an event costs as much as all that came before it.
#[test]
fn an_event_costs_what_it_is_long() {
    let text = "a".repeat(1 << 20);
    let item = |kind| {
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": kind, "name": "say", "call_id": "c"}})
    };
    let tables = [
        ("message", "output_text.delta", "output_text.done"),
        ("message", "refusal.delta", "refusal.done"),
        ("function_call", "function_call_arguments.delta", "function_call_arguments.done"),
    ];
    for (kind, delta, done) in tables {
        let event = |of: &str| format!("response.{of}");
        let mut body =
            named(&[item(kind), json!({"type": event(delta), "output_index": 0, "delta": text})]);
        body.push_str(&named(&[json!({"type": event(done), "output_index": 0})]).repeat(50_000));
        let end = json!({"type": "response.completed", "response": {"status": "completed"}});
        body.push_str(&named(&[end]));
        let answer = read("responses", &[body.as_bytes()], Default::default());
        assert!(answer.end.is_ok(), "{:?}", answer.end);
        assert_eq!(
            answer.text().len() + answer.calls().iter().map(|it| it.arguments.len()).sum::<usize>(),
            text.len()
        );
    }

    let names: Vec<String> = (0..200_000).map(|at| format!("\"a{at}\":0")).collect();
    let names = names.join(",");
    let detail = |more: &str| {
        let detail = format!("{{\"type\":\"reasoning.text\",\"text\":\"b\"{more}}}");
        format!("data: {{\"choices\":[{{\"delta\":{{\"reasoning_details\":[{detail}]}}}}]}}\n\n")
    };
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let body = detail(&format!(",{names}")) + &detail("").repeat(100_000) + end;
    let answer = read("chat", &[body.as_bytes()], Default::default());
    assert!(answer.end.is_ok(), "{:?}", answer.end);
    let kept = &answer.kept()[0]["reasoning_details"];
    assert_eq!(kept.as_array().map(Vec::len), Some(1));
    assert_eq!(kept[0]["text"].as_str().map(str::len), Some(100_001));
    assert_eq!((&kept[0]["a0"], &kept[0]["a199999"]), (&json!(0), &json!(0)));

    let start = |more: &str| {
        let block = format!("{{\"type\":\"compaction\",\"content\":null{more}}}");
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{block}}}\n\n"
        )
    };
    let delta = |content| {
        let delta = json!({"type": "compaction_delta", "content": content});
        named(&[json!({"type": "content_block_delta", "index": 0, "delta": delta})])
    };
    let body = start(&format!(",{names}")) + &delta("c").repeat(100_000) + &delta("d");
    let body = body + &named(&[json!({"type": "message_stop"})]);
    let answer = read("anthropic", &[body.as_bytes()], Default::default());
    assert!(answer.end.is_ok(), "{:?}", answer.end);
    assert_eq!(answer.kept()[0]["content"], "d");
}
