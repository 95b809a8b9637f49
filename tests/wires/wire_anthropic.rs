//! The Messages wire, each fact of the vendor's documentation and each known deviation of gateways.

use harness::{
    Block, CallOutcome, ErrorKind, Media, Message, ReasoningBlock, Role, StopReason, StreamEvent,
    TextBlock, ToolCall, ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{Effort, PromptCache, Request, Settings, ToolChoice},
    tool::ToolSchema,
    wire::anthropic,
};
use serde_json::{Value, json};

use crate::decoded::{Decoded, both_ways, call, named, unnamed};

fn decode(body: &str) -> Decoded {
    both_ways("anthropic", body, Default::default())
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 3, "output_tokens": 1}}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// A whole answer of these events.
fn whole(events: &[Value], reason: &str) -> Decoded {
    decode(&named(&[&[start()], events, &end(reason)].concat()))
}

fn text(index: u64, text: &str) -> Vec<Value> {
    vec![
        block(index, json!({"type": "text", "text": ""})),
        delta(index, json!({"type": "text_delta", "text": text})),
        stop(index),
    ]
}

fn tool(index: u64, id: &str, json: &str) -> Vec<Value> {
    vec![
        block(index, json!({"type": "tool_use", "id": id, "name": "add", "input": {}})),
        delta(index, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(index, json!({"type": "input_json_delta", "partial_json": json})),
        stop(index),
    ]
}

// -- the envelope

#[test]
fn f1_1_padding_pings_and_what_follows_the_end_do_not_matter() {
    let mut events = vec![json!({"type": "ping"}), start(), json!({"type": "ping"})];
    events.extend(text(0, "Hi"));
    events.extend(end("end_turn"));
    let body = named(&events).replace("}\n\n", "     }\n\n");
    let decoded = decode(&format!("{body}event: data\ndata: [DONE]\n\nevent: x\ndata: {{\n\n"));
    assert_eq!((decoded.text().as_str(), decoded.stop()), ("Hi", StopReason::Complete));
}

#[test]
fn f1_1_events_without_names_are_known_by_their_type() {
    let events = [&[start()], &text(0, "Hi")[..], &end("end_turn")].concat();
    assert_eq!(decode(&unnamed(&events)).text(), "Hi");
}

// -- events

#[test]
fn f1_2_a_message_start_may_hold_whole_calls_and_no_delta_may_follow() {
    let started = json!({"type": "message_start", "message": {"id": "msg_1", "model": "m",
        "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 7},
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1},
                     "caller": {"type": "code_execution"}}]}});
    let decoded = decode(&named(&[started, json!({"type": "message_stop"})]));
    assert_eq!(decoded.calls(), [call("toolu_1", "add", r#"{"a":1}"#)]);
    assert_eq!(decoded.stop(), StopReason::ToolCalls);
    assert_eq!(decoded.usage().output, Some(7));
}

#[test]
fn f1_2_input_may_be_whole_at_the_start_of_a_block() {
    let started =
        block(0, json!({"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}}));
    let decoded = whole(&[started, stop(0)], "tool_use");
    assert_eq!(decoded.calls(), [call("t", "add", r#"{"a":1}"#)]);
}

#[test]
fn f1_2_usage_is_replaced_and_never_added_up() {
    let body = named(&[
        json!({"type": "message_start", "message": {"id": "a", "usage": {"input_tokens": 10,
            "cache_read_input_tokens": 5, "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 20, "output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]);
    let usage = decode(&body).usage();
    assert_eq!((usage.input, usage.cache_read, usage.output), (Some(25), Some(5), Some(9)));
}

#[test]
fn f1_2_message_stop_or_a_stop_reason_after_whole_blocks_ends_an_answer() {
    let [last, _] = end("end_turn");
    let decoded =
        decode(&named(&[&[start()], &text(0, "Hi")[..], std::slice::from_ref(&last)].concat()));
    assert_eq!(decoded.text(), "Hi");
    assert_eq!(decoded.stop(), StopReason::Complete);
    let mut early = start();
    early["message"]["stop_reason"] = json!("end_turn");
    let (hi, open) = (text(0, "Hi"), &text(0, "Hi")[..2]);
    for cut in [
        [&[start()], &hi[..]].concat(),
        [&[early], &hi[..]].concat(),
        [&[start()], open, &[last]].concat(),
    ] {
        assert_eq!(decode(&named(&cut)).error().kind(), ErrorKind::CutOff);
    }
}

#[test]
fn f1_2_an_error_event_after_a_success_ends_the_answer() {
    let error = json!({"type": "error", "request_id": "req_1",
        "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let decoded = decode(&named(&[&[start()], &text(0, "Hi")[..], &[error]].concat()));
    let err = decoded.error();
    assert_eq!(
        (err.kind(), err.code(), err.message()),
        (ErrorKind::Api, Some("overloaded_error"), "Overloaded")
    );
    assert_eq!(err.request_id(), Some("req_1"));
    assert!(err.is_retryable());
    assert_eq!(decoded.text(), "Hi", "what came before it is kept");
}

#[test]
fn f1_2_deltas_belong_to_the_block_of_their_index() {
    let mut events = vec![
        block(0, json!({"type": "tool_use", "id": "a", "name": "add", "input": {}})),
        block(1, json!({"type": "tool_use", "id": "b", "name": "add", "input": {}})),
    ];
    for (index, part) in [(1, "{\"b\""), (0, "{\"a\""), (1, ":1}"), (0, ":2}")] {
        events.push(delta(index, json!({"type": "input_json_delta", "partial_json": part})));
    }
    events.extend([stop(0), stop(1)]);
    let decoded = whole(&events, "tool_use");
    assert_eq!(decoded.calls(), [call("a", "add", r#"{"a":2}"#), call("b", "add", r#"{"b":1}"#)]);
}

#[test]
fn f1_2_a_repeated_start_is_ignored_and_another_answers_start_fails() {
    let repeated =
        decode(&named(&[&[start(), start()], &text(0, "Hi")[..], &end("end_turn")].concat()));
    assert_eq!(repeated.text(), "Hi");
    let mut other = start();
    other["message"]["id"] = json!("msg_2");
    let spliced = decode(&named(&[&[start()], &text(0, "Hi")[..], &[other]].concat()));
    assert_eq!(spliced.error().kind(), ErrorKind::Protocol);
    assert!(spliced.error().message().contains("msg_2"));
}

// -- blocks and deltas

#[test]
fn f1_3_what_the_vendor_runs_itself_is_kept_whole_and_never_called() {
    let search =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "encrypted_content": "Eo8", "url": "https://a.test"}]});
    let events = [
        vec![
            block(0, search),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"query\": "})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "\"rust\"}"})),
            stop(0),
            block(1, result.clone()),
            stop(1),
        ],
        text(2, "Found."),
    ];
    let decoded = whole(&events.concat(), "end_turn");
    assert_eq!(decoded.calls(), []);
    assert_eq!(decoded.stop(), StopReason::Complete);
    assert_eq!(decoded.kept()[0]["input"], json!({"query": "rust"}));
    assert_eq!(decoded.kept()[1], result);

    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap()]);
    let content = &body["messages"][1]["content"];
    let kinds: Vec<&str> =
        content.as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["server_tool_use", "web_search_tool_result", "text"], "in their places");
    assert_eq!(content[1], result);
}

#[test]
fn f1_3_an_unknown_block_is_kept_and_harms_nothing() {
    let new = json!({"type": "hologram", "beam": {"z": 1}});
    let events = [
        vec![
            block(0, new.clone()),
            delta(0, json!({"type": "beam_delta", "z": {"a": []}})),
            stop(0),
        ],
        text(1, "Hi"),
    ];
    let decoded = whole(&events.concat(), "end_turn");
    assert_eq!((decoded.text().as_str(), &decoded.kept()[0]), ("Hi", &new));
}

#[test]
fn f1_3_unknown_events_fields_and_types_fail_nothing() {
    let events = [
        vec![json!({"type": "new_event", "delta": "text", "usage": [1], "index": "x"})],
        vec![block(0, json!({"type": "text", "text": null, "new": [1]}))],
        vec![delta(0, json!({"type": "text_delta", "text": "Hi", "new": {"a": 1}}))],
        vec![delta(0, json!({"type": "new_delta", "text": "no"})), stop(0)],
    ];
    assert_eq!(whole(&events.concat(), "end_turn").text(), "Hi");
}

#[test]
fn f1_4_an_empty_input_is_a_call_without_arguments() {
    let decoded = whole(&tool(0, "t", ""), "tool_use");
    assert_eq!(decoded.calls(), [call("t", "add", "")]);
    assert_eq!(decoded.answer().message.unwrap().calls().count(), 1);
}

#[test]
fn f1_4_an_empty_input_at_the_limit_is_no_call() {
    let decoded = whole(&tool(0, "t", "")[..2], "max_tokens");
    assert!(!decoded.calls()[0].ended);
    assert_eq!(decoded.answer().message, None);
    // Even if the block was closed in order.
    assert_eq!(whole(&tool(0, "t", ""), "max_tokens").answer().message, None);
}

#[test]
fn f1_4_a_signature_is_set_and_not_added_to() {
    let decoded = whole(
        &[
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "Hm.", "estimated_tokens": 3})),
            delta(0, json!({"type": "signature_delta", "signature": "old"})),
            delta(0, json!({"type": "signature_delta", "signature": "new"})),
            stop(0),
        ],
        "end_turn",
    );
    assert_eq!(decoded.reasoning(), "Hm.");
    assert_eq!(decoded.kept(), [json!({"signature": "new"})]);
}

#[test]
fn f1_4_citations_go_back_with_their_text() {
    let cite = |n: u64| json!({"type": "char_location", "cited_text": "x", "document_index": n});
    let mut events = text(0, "Hi");
    events.insert(2, delta(0, json!({"type": "citations_delta", "citation": cite(1)})));
    events.insert(3, delta(0, json!({"type": "citations_delta", "citation": cite(2)})));
    let message = whole(&events, "end_turn").answer().message.unwrap();
    let body = encoded(&[Message::user("?"), message]);
    let expected = json!([{"type": "text", "text": "Hi", "citations": [cite(1), cite(2)]}]);
    assert_eq!(body["messages"][1]["content"], expected);
}

// -- why it stopped

#[test]
fn f1_5_each_reason_to_stop_has_its_meaning() {
    let reasons = [
        ("end_turn", StopReason::Complete),
        ("stop_sequence", StopReason::Complete),
        ("max_tokens", StopReason::Truncated),
        ("model_context_window_exceeded", StopReason::Truncated),
        ("pause_turn", StopReason::Paused),
        ("refusal", StopReason::Refused),
        ("a_new_reason", StopReason::Complete),
    ];
    for (reason, expected) in reasons {
        assert_eq!(whole(&text(0, "Hi"), reason).stop(), expected, "{reason}");
    }
    assert_eq!(whole(&tool(0, "t", "{}"), "tool_use").stop(), StopReason::ToolCalls);
    assert_eq!(whole(&tool(0, "t", "{}"), "a_new_reason").stop(), StopReason::ToolCalls);
}

#[test]
fn f1_5_a_call_that_the_limit_cut_off_is_dropped() {
    let events = [text(0, "Let me."), tool(1, "a", "{\"x\":1}"), tool(2, "b", "{\"x\":")].concat();
    let decoded = whole(&events, "max_tokens");
    let message = decoded.answer().message.unwrap();
    assert_eq!(message.text(), "Let me.");
    let kept: Vec<&str> = message.calls().map(ToolCall::id).collect();
    assert_eq!(kept, ["a"], "and what is whole is kept, though it may not run");
    assert!(!decoded.stop().lets_calls_run());
}

#[test]
fn f1_5_a_refusal_after_a_call_runs_nothing() {
    let decoded = whole(&[text(0, "Sure"), tool(1, "a", "{}")].concat(), "refusal");
    let answer = decoded.answer();
    assert_eq!((answer.stop, answer.message.unwrap().calls().count()), (StopReason::Refused, 0));
}

#[test]
fn f1_5_a_paused_turn_goes_back_unchanged_as_the_last_message() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1}});
    let decoded = whole(
        &[text(0, "Searching. "), vec![block(1, search.clone()), stop(1)]].concat(),
        "pause_turn",
    );
    assert_eq!(decoded.stop(), StopReason::Paused);
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap()]);
    let last = &body["messages"][1];
    assert_eq!(last["role"], "assistant");
    assert_eq!(last["content"], json!([{"type": "text", "text": "Searching. "}, search]));
}

#[test]
fn f1_5_an_end_without_content_is_no_error() {
    let answer = whole(&[], "end_turn").answer();
    assert_eq!((answer.stop, answer.message), (StopReason::Complete, None));
}

// -- usage

#[test]
fn f1_6_input_includes_the_cache_and_output_the_thinking() {
    let body = named(&[
        json!({"type": "message_start", "message": {"id": "a", "usage": {"input_tokens": 10,
            "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
            "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}}}),
        json!({"type": "message_stop"}),
    ]);
    let usage = decode(&body).usage();
    assert_eq!(
        (usage.input, usage.cache_write, usage.cache_read),
        (Some(1110), Some(100), Some(1000))
    );
    assert_eq!((usage.output, usage.reasoning), (Some(50), Some(30)));
}

#[test]
fn f1_6_what_summing_up_used_is_counted_and_known_apart() {
    let used = |iterations: Value| {
        let body = named(&[
            json!({"type": "message_start", "message": {"id": "a", "usage": {"input_tokens": 10,
                "cache_read_input_tokens": 1000, "output_tokens": 1}}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
                "output_tokens": 50, "iterations": iterations}}),
            json!({"type": "message_stop"}),
        ]);
        let usage = decode(&body).usage();
        (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.compaction)
    };
    let step = |kind: &str| {
        json!({"type": kind, "input_tokens": 40_000, "output_tokens": 700,
        "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 0})
    };
    let answer = json!({"type": "message", "input_tokens": 10, "output_tokens": 50});
    assert_eq!(
        used(json!([step("compaction"), answer])),
        (Some(46_010), Some(6000), Some(0), Some(750), Some(45_000))
    );
    // A step that the counts include already, one of another model, and what is none.
    let nothing = (Some(1010), Some(1000), None, Some(50), None);
    let others = json!([answer, step("fallback_message"), step("advisor_message"), 7, null, {}]);
    for iterations in [others, json!([]), json!("compaction"), Value::Null] {
        assert_eq!(used(iterations), nothing);
    }
}

#[test]
fn f1_6_what_is_not_counted_is_unknown() {
    let body = named(&[
        json!({"type": "message_start", "message": {"id": "a"}}),
        json!({"type": "message_stop"}),
    ]);
    assert_eq!(decode(&body).usage(), Default::default());
}

// -- thinking

#[test]
fn f1_7_thinking_without_words_keeps_its_signature() {
    let decoded = whole(
        &[
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            stop(0),
            block(1, json!({"type": "redacted_thinking", "data": "EuYB"})),
            stop(1),
            tool(2, "t", "{}")[0].clone(),
            stop(2),
        ],
        "tool_use",
    );
    let message = decoded.answer().message.unwrap();
    let result = ToolResult::new("t", CallOutcome::Succeeded, [ToolContent::Text("3".into())]);
    let results = Message::new(Role::Tool, [Block::ToolResult(result)]);
    let body = encoded(&[Message::user("?"), message, results]);
    let content = &body["messages"][1]["content"];
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "", "signature": "sig"}));
    assert_eq!(content[1], json!({"type": "redacted_thinking", "data": "EuYB"}));
    assert_eq!(content[2]["type"], "tool_use");
}

#[test]
fn f1_7_thinking_without_a_signature_never_goes_back() {
    let decoded = whole(
        &[
            vec![
                block(0, json!({"type": "thinking", "thinking": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
                delta(0, json!({"type": "signature_delta", "signature": ""})),
                stop(0),
            ],
            text(1, "Hi"),
        ]
        .concat(),
        "end_turn",
    );
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap()]);
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Hi"}]));
}

#[test]
fn f1_7_effort_is_said_as_each_family_of_models_takes_it() {
    let said = |model: &str, effort| {
        let settings =
            Settings { effort: Some(effort), max_tokens: Some(10_000), ..Settings::default() };
        let body = encoded_with(&[Message::user("?")], model, settings);
        (body["thinking"].clone(), body["output_config"]["effort"].clone())
    };
    let shown = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(said("claude-sonnet-5", Effort::High), (shown.clone(), json!("high")));
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(said("claude-opus-4-6", Effort::High), (adaptive, json!("high")));
    let budget = json!({"type": "enabled", "budget_tokens": 8192});
    assert_eq!(said("claude-haiku-4-5-20251001", Effort::Medium), (budget, Value::Null));
    let most = json!({"type": "enabled", "budget_tokens": 8976});
    assert_eq!(
        said("claude-sonnet-4-20250514", Effort::Max),
        (most, Value::Null),
        "below max_tokens"
    );
    assert_eq!(said("claude-opus-4-6", Effort::Off), (json!({"type": "disabled"}), Value::Null));
    assert_eq!(
        said("claude-sonnet-5-5", Effort::Off),
        (json!({"type": "between_tools"}), json!("low"))
    );
    // It thinks all the same, and what it says between calls is thinking.
    assert_eq!(said("claude-opus-5-5", Effort::Off), (shown, json!("low")));
}

// -- messages, tools, caching

#[test]
fn f1_8_calls_come_last_and_results_first_in_one_message() {
    let assistant = Message::assistant([
        Block::ToolCall(ToolCall::new("a", "add", "{}")),
        Block::text("Both at once."),
        Block::ToolCall(ToolCall::new("b", "add", "{}")),
    ]);
    let result = |id: &str| {
        Block::ToolResult(ToolResult::new(
            id,
            CallOutcome::Succeeded,
            [ToolContent::Text("1".into())],
        ))
    };
    let results = Message::new(Role::Tool, [result("a"), result("b")]);
    let body = encoded(&[Message::user("?"), assistant, results, Message::user("And?")]);
    let kinds = |at: usize| -> Vec<String> {
        let content = body["messages"][at]["content"].as_array().unwrap();
        content.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(1), ["text", "tool_use", "tool_use"]);
    assert_eq!(kinds(2), ["tool_result", "tool_result"]);
    assert_eq!(kinds(3), ["text"]);
}

#[test]
fn f1_8_a_result_without_words_says_so_and_an_error_is_words_alone() {
    let picture = || ToolContent::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"));
    let results = Message::new(
        Role::Tool,
        [
            Block::ToolResult(ToolResult::new("a", CallOutcome::Succeeded, [])),
            Block::ToolResult(ToolResult::new(
                "b",
                CallOutcome::Failed,
                [picture(), "broken".into()],
            )),
            Block::ToolResult(ToolResult::new("c", CallOutcome::Succeeded, [picture()])),
        ],
    );
    let calls = ["a", "b", "c"].map(|id| Block::ToolCall(ToolCall::new(id, "add", "{}")));
    let body = encoded(&[Message::user("?"), Message::assistant(calls), results]);
    let content = &body["messages"][2]["content"];
    assert_eq!(content[0]["content"], json!([{"type": "text", "text": "(no output)"}]));
    let said = content[1]["content"].as_array().unwrap();
    assert!(said.iter().all(|part| part["type"] == "text") && said[1]["text"] == "broken");
    let line = said[0]["text"].as_str().unwrap();
    assert!(line.starts_with("[A picture stood here that cannot be shown: the call"), "{line}");
    assert_eq!((&content[1]["is_error"], &content[0]["is_error"]), (&json!(true), &Value::Null));
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    assert_eq!(content[2]["content"], json!([{"type": "image", "source": source}]));
}

#[test]
fn f1_8_foreign_ids_and_names_are_rewritten_and_stay_paired() {
    let call = ToolCall::new("functions.add:0", "functions.add", "{}");
    let result = ToolResult::new("functions.add:0", CallOutcome::Succeeded, ["1".into()]);
    let messages = [
        Message::user("?"),
        Message::assistant([Block::ToolCall(call)]),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ];
    let body = encoded(&messages);
    let id = body["messages"][1]["content"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("functions_add_0_"), "{id}");
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], id);
    assert_eq!(body["messages"][1]["content"][0]["name"], "functions_add");
    assert_eq!(encoded(&messages), body, "each time the same");
}

#[test]
fn f1_8_blank_text_is_left_out_and_an_empty_message_with_it() {
    let foreign = VendorData::new("responses", "{}").unwrap();
    let body = encoded(&[
        Message::user("?"),
        Message::assistant([Block::text(" \n"), Block::Vendor(foreign)]),
        Message::user("And?"),
    ]);
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn f1_8_tool_choice_is_said_in_the_vendors_words() {
    let said = |choice, parallel_calls| {
        let settings = Settings { tool_choice: choice, parallel_calls, ..Settings::default() };
        encoded_with(&[Message::user("?")], "m", settings)["tool_choice"].clone()
    };
    assert_eq!(said(None, None), Value::Null);
    assert_eq!(said(Some(ToolChoice::Required), None), json!({"type": "any"}));
    assert_eq!(said(Some(ToolChoice::Forbidden), Some(false)), json!({"type": "none"}));
    assert_eq!(
        said(Some(ToolChoice::Tool("add".into())), None),
        json!({"type": "tool", "name": "add"})
    );
    assert_eq!(said(None, Some(false)), json!({"type": "auto", "disable_parallel_tool_use": true}));
}

#[test]
fn f1_9_the_schema_of_a_tool_goes_as_it_is() {
    let body = encoded(&[Message::user("?")]);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    assert_eq!(body["tools"][0].get("strict"), None, "the vendor's own default");
}

#[test]
fn f1_10_eager_input_may_be_no_json_even_at_the_end_of_its_block() {
    let decoded = whole(&tool(0, "t", r#"{"a": 1,,"#), "tool_use");
    assert_eq!(decoded.calls(), [call("t", "add", r#"{"a": 1,,"#)]);
    let message = decoded.answer().message.unwrap();
    let result = ToolResult::new("t", CallOutcome::Failed, ["not JSON".into()]);
    let body = encoded(&[
        Message::user("?"),
        message,
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ]);
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({}), "and it still goes back");
}

#[test]
fn f1_11_three_breakpoints_are_set_and_messages_keep_their_bytes() {
    let body = encoded(&[Message::user("?")]);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["cache_control"], mark, "the moving one is the vendor's to place");
    assert_eq!(body["system"][0]["cache_control"], mark);
    assert_eq!(body["tools"][0]["cache_control"], mark);
    assert!(!body["messages"].to_string().contains("cache_control"));
    let cache = |prompt_cache| {
        options("m", Settings { prompt_cache: Some(prompt_cache), ..Settings::default() })
    };
    let off = raw(&[Message::user("?")], &cache(PromptCache::Off));
    assert!(!off.contains("cache_control"));
    let long = raw(&[Message::user("?")], &cache(PromptCache::Long));
    let marks = long.matches(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#).count();
    assert_eq!((marks, long.matches("cache_control").count()), (3, 3), "all of one lifetime");
}

#[test]
fn f1_12_spent_money_is_told_from_too_many_requests() {
    let of = |status: u16, code: &str| {
        let body = json!({"type": "error", "request_id": null, "error": {"type": "rate_limit_error",
            "message": "no", "details": {"error_code": code}}});
        harness::wire::error_of(status, body.to_string().as_bytes())
    };
    assert!(!of(429, "enforced_spend_limit_reached").is_retryable());
    assert!(of(429, "requests_per_minute").is_retryable());
    assert_eq!(of(429, "requests_per_minute").request_id(), None);
    for (status, again) in [
        (400, false),
        (401, false),
        (402, false),
        (409, true),
        (413, false),
        (500, true),
        (504, true),
        (529, true),
    ] {
        let body = json!({"type": "error", "error": {"type": "x_error", "message": "no"}});
        let err = harness::wire::error_of(status, body.to_string().as_bytes());
        assert_eq!((err.is_retryable(), err.code()), (again, Some("x_error")), "{status}");
    }
}

// -- servers that speak it too

#[test]
fn llama_cpp_stops_all_blocks_at_the_end_and_gives_no_input_and_no_signature() {
    let events = [
        block(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        block(1, json!({"type": "tool_use", "id": "t", "name": "add"})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{}"})),
        delta(0, json!({"type": "signature_delta", "signature": ""})),
        stop(0),
        stop(1),
    ];
    let decoded = whole(&events, "tool_use");
    assert_eq!(
        (decoded.reasoning().as_str(), decoded.calls()),
        ("Hm.", vec![call("t", "add", "{}")])
    );
}

#[test]
fn an_error_in_another_vendors_shape_is_an_error() {
    let body = "data: {\"error\":{\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\"}}\n\n";
    let decoded = decode(body);
    let err = decoded.error();
    assert_eq!((err.status(), err.code()), (Some(400), Some("exceed_context_size_error")));
}

#[test]
fn more_than_two_calls_at_once_keep_their_order() {
    let events: Vec<Value> = (0..5).flat_map(|n| tool(n, &format!("t{n}"), "{}")).collect();
    let decoded = whole(&events, "tool_use");
    let ids: Vec<String> = decoded.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(ids, ["t0", "t1", "t2", "t3", "t4"]);
    let ends =
        decoded.events.iter().filter(|event| matches!(event, StreamEvent::ToolCallEnd { .. }));
    assert_eq!(ends.count(), 5);
}

// -- what a conversation begun elsewhere is here

#[test]
fn thinking_of_another_vendor_is_left_out_and_the_rest_goes_on() {
    let data =
        |wire: &str| Some(VendorData::new(wire, r#"{"signature":"x","id":"rs_1"}"#).unwrap());
    let body = encoded(&[
        Message::user("?"),
        Message::assistant([
            Block::Reasoning(ReasoningBlock::new("Hm.", data("responses"))),
            Block::Reasoning(ReasoningBlock::new("Hm.", None)),
            Block::Text(TextBlock::new("Hi").with_vendor(data("chat"))),
        ]),
    ]);
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Hi"}]));
}

fn options(model: &str, settings: Settings) -> anthropic::Options {
    anthropic::Options { settings, ..anthropic::Options::new(model) }
}

fn raw(messages: &[Message], options: &anthropic::Options) -> String {
    let mut transcript = Transcript::default();
    for message in messages {
        transcript.push(message.clone()).unwrap();
    }
    let tools = [ToolSchema {
        name: "add".to_owned(),
        description: "Adds.".to_owned(),
        input_schema: json!({"type": "object", "properties": {}}),
    }];
    let request =
        Request::new(&transcript).unwrap().with_system(Some("Be brief.")).with_tools(&tools);
    String::from_utf8(anthropic::encode(&request, options).unwrap()).unwrap()
}

fn encoded_with(messages: &[Message], model: &str, settings: Settings) -> Value {
    serde_json::from_str(&raw(messages, &options(model, settings))).unwrap()
}

fn encoded(messages: &[Message]) -> Value {
    encoded_with(messages, "m", Settings::default())
}
