//! The Responses wire, each fact of the vendor's reference and each known deviation of others.

use harness::{
    Block, CallOutcome, ErrorKind, Media, Message, ReasoningBlock, Role, StopReason, TextBlock,
    ToolCall, ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{Effort, Request, Settings, ToolChoice},
    tool::ToolSchema,
    wire::responses,
};
use serde_json::{Value, json};

use crate::decoded::{Decoded, both_ways, call, named, unnamed};

fn decode(body: &str) -> Decoded {
    both_ways("responses", body, Default::default())
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "status": "in_progress"}})
}

fn end(status: &str, more: Value) -> Value {
    let mut response = json!({"id": "resp_1", "status": status, "output": []});
    for (name, value) in more.as_object().unwrap() {
        response[name] = value.clone();
    }
    json!({"type": format!("response.{status}"), "response": response})
}

fn whole(events: &[Value]) -> Decoded {
    decode(&named(&[&[created()], events, &[end("completed", json!({}))]].concat()))
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn event(kind: &str, index: u64, id: &str, name: &str, value: impl Into<Value>) -> Value {
    let mut event =
        json!({"type": format!("response.{kind}"), "output_index": index, "item_id": id});
    event[name] = value.into();
    event
}

fn function(id: &str, call_id: &str, arguments: &str, status: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": "add",
        "arguments": arguments, "status": status})
}

/// A call with its arguments in two deltas.
fn called(index: u64, call_id: &str, arguments: &str) -> Vec<Value> {
    let id = format!("fc_{index}");
    let (first, second) = arguments.split_at(arguments.len() / 2);
    vec![
        added(index, function(&id, call_id, "", "in_progress")),
        event("function_call_arguments.delta", index, &id, "delta", first),
        event("function_call_arguments.delta", index, &id, "delta", second),
        event("function_call_arguments.done", index, &id, "arguments", arguments),
        done(index, function(&id, call_id, arguments, "completed")),
    ]
}

fn message(index: u64, text: &str) -> Vec<Value> {
    let item = |content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content});
    vec![
        added(index, item(json!([]))),
        event("output_text.delta", index, "msg_1", "delta", text),
        event("output_text.done", index, "msg_1", "text", text),
        done(index, item(json!([{"type": "output_text", "text": text, "annotations": []}]))),
    ]
}

// -- events

#[test]
fn f2_1_a_stream_without_names_and_with_comments_and_done_is_read() {
    let events = [&[created()], &message(0, "Hi")[..], &[end("completed", json!({}))]].concat();
    let body = format!(": OPENROUTER PROCESSING\n\n{}data: [DONE]\n\n", unnamed(&events));
    assert_eq!((decode(&body).text().as_str(), decode(&body).stop()), ("Hi", StopReason::Complete));
}

#[test]
fn f2_1_items_are_told_by_their_place_though_ids_rotate() {
    let mut events = called(0, "call_1", r#"{"a":1}"#);
    for (n, event) in events.iter_mut().enumerate() {
        if event.get("item_id").is_some() {
            event["item_id"] = json!(format!("rotated_{n}"));
        } else {
            event["item"]["id"] = json!(format!("rotated_{n}"));
        }
    }
    assert_eq!(whole(&events).calls(), [call("call_1", "add", r#"{"a":1}"#)]);
}

#[test]
fn f2_1_sequence_numbers_and_obfuscation_do_not_matter() {
    let mut events = message(0, "Hi");
    events[1]["sequence_number"] = json!(99);
    events[1]["obfuscation"] = json!("aZ3");
    assert_eq!(whole(&events).text(), "Hi");
}

#[test]
fn f2_1_keepalives_and_unknown_events_fail_nothing() {
    let mut events = message(0, "Hi");
    events.insert(1, json!({"type": "keepalive", "sequence_number": 3}));
    events
        .insert(2, json!({"type": "response.dream.delta", "delta": {"a": [1]}, "output_index": 0}));
    assert_eq!(whole(&events).text(), "Hi");
}

#[test]
fn f2_1_unknown_items_are_kept_and_go_back() {
    let item = json!({"type": "hologram", "id": "ho_1", "beam": {"z": 1}});
    let events = [
        vec![added(0, json!({"type": "hologram", "id": "ho_1"})), done(0, item.clone())],
        message(1, "Hi"),
    ];
    let answer = whole(&events.concat()).answer();
    let body = encoded(&[Message::user("?"), answer.message.unwrap()]);
    assert_eq!(body["input"][1], item);
}

// -- calls

#[test]
fn f2_2_results_refer_to_the_call_id_and_the_items_id_goes_back() {
    let decoded = whole(&called(0, "call_1", r#"{"a":1}"#));
    assert_eq!(decoded.calls(), [call("call_1", "add", r#"{"a":1}"#)]);
    assert_eq!(decoded.stop(), StopReason::ToolCalls);
    let result = ToolResult::new("call_1", CallOutcome::Succeeded, ["1".into()]);
    let body = encoded(&[
        Message::user("?"),
        decoded.answer().message.unwrap(),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ]);
    assert_eq!(
        (&body["input"][1]["id"], &body["input"][1]["call_id"]),
        (&json!("fc_0"), &json!("call_1"))
    );
    let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "1"});
    assert_eq!(body["input"][2], output);
}

#[test]
fn f2_2_an_item_id_of_another_make_is_left_out() {
    let item = |arguments| {
        json!({"type": "function_call", "id": "0192-uuid", "call_id": "call_1",
        "name": "add", "arguments": arguments, "status": "completed"})
    };
    let decoded = whole(&[added(0, item("")), done(0, item("{}"))]);
    let result = ToolResult::new("call_1", CallOutcome::Succeeded, ["1".into()]);
    let body = encoded(&[
        Message::user("?"),
        decoded.answer().message.unwrap(),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ]);
    assert_eq!(body["input"][1].get("id"), None);
}

#[test]
fn f2_2_arguments_without_deltas_are_taken_from_the_end() {
    let only_done = [
        added(0, function("fc_1", "call_1", "", "in_progress")),
        event("function_call_arguments.done", 0, "fc_1", "arguments", r#"{"a":1}"#),
        done(0, function("fc_1", "call_1", r#"{"a":1}"#, "completed")),
    ];
    assert_eq!(whole(&only_done).calls(), [call("call_1", "add", r#"{"a":1}"#)]);
    let only_item = [done(0, function("fc_1", "call_1", r#"{"a":1}"#, "completed"))];
    assert_eq!(whole(&only_item).calls(), [call("call_1", "add", r#"{"a":1}"#)]);
    let half = [
        added(0, function("fc_1", "call_1", "", "in_progress")),
        event("function_call_arguments.delta", 0, "fc_1", "delta", "{\"a\""),
        done(0, function("fc_1", "call_1", r#"{"a":1}"#, "completed")),
    ];
    assert_eq!(whole(&half).calls(), [call("call_1", "add", r#"{"a":1}"#)]);
}

#[test]
fn f2_2_of_deltas_and_end_the_end_is_right() {
    let contradicted = [
        added(0, function("fc_1", "call_1", "", "in_progress")),
        event("function_call_arguments.delta", 0, "fc_1", "delta", r#"{"a":7}"#),
        event("function_call_arguments.done", 0, "fc_1", "arguments", r#"{"a":1}"#),
        done(0, function("fc_1", "call_1", r#"{"a":1}"#, "completed")),
    ];
    let decoded = whole(&contradicted);
    assert_eq!(decoded.calls(), [call("call_1", "add", r#"{"a":1}"#)]);
    let message = decoded.answer().message.unwrap();
    assert_eq!(message.calls().next().unwrap().arguments(), r#"{"a":1}"#);
}

#[test]
fn f2_2_a_truncated_call_is_told_as_done_and_is_not() {
    let events = [
        created(),
        added(0, function("fc_1", "call_1", "", "in_progress")),
        event("function_call_arguments.delta", 0, "fc_1", "delta", "{\"a\":"),
        event("function_call_arguments.done", 0, "fc_1", "arguments", "{\"a\":"),
        done(0, function("fc_1", "call_1", "{\"a\":", "incomplete")),
        end("incomplete", json!({"incomplete_details": {"reason": "max_output_tokens"}})),
    ];
    let decoded = decode(&named(&events));
    assert!(!decoded.calls()[0].ended);
    assert_eq!((decoded.stop(), decoded.answer().message), (StopReason::Truncated, None));
}

#[test]
fn f2_2_calls_at_once_keep_their_order_though_they_interleave() {
    let (a, b) = (called(0, "call_a", r#"{"a":1}"#), called(1, "call_b", r#"{"b":2}"#));
    let mixed: Vec<Value> = a.into_iter().zip(b).flat_map(|(a, b)| [a, b]).collect();
    let calls = whole(&mixed).calls();
    assert_eq!(calls, [call("call_a", "add", r#"{"a":1}"#), call("call_b", "add", r#"{"b":2}"#)]);
}

#[test]
fn f2_2_the_vendors_wrapper_call_is_a_call_of_an_unknown_tool() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "status": "completed",
        "name": "multi_tool_use.parallel", "arguments": "{\"tool_uses\":[]}"});
    let decoded = whole(&[done(0, item)]);
    assert_eq!(decoded.calls()[0].name, "multi_tool_use.parallel");
}

#[test]
fn f2_2_free_text_input_is_a_json_string() {
    let item = |input: &str| json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "sh", "input": input});
    let decoded = whole(&[added(0, item("")), done(0, item("ls \"x\""))]);
    assert_eq!(decoded.calls(), [call("c", "sh", r#""ls \"x\"""#)]);
    let result = ToolResult::new("c", CallOutcome::Succeeded, ["x".into()]);
    let results = Message::new(Role::Tool, [Block::ToolResult(result)]);
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap(), results]);
    assert_eq!(body["input"][1]["input"], "ls \"x\"");
    assert_eq!(body["input"][2]["type"], "custom_tool_call_output");
}

// -- the end

#[test]
fn f2_3_the_turn_is_built_of_items_though_the_end_holds_no_output() {
    let decoded = whole(&[message(0, "Hi"), called(1, "call_1", "{}")].concat());
    assert_eq!((decoded.text().as_str(), decoded.calls().len()), ("Hi", 1));
}

#[test]
fn f2_3_an_answer_that_was_never_streamed_is_taken_from_the_end() {
    let output = json!([{"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]},
        function("fc_1", "call_1", "{}", "completed")]);
    let decoded = decode(&named(&[created(), end("completed", json!({"output": output}))]));
    assert_eq!(
        (decoded.text().as_str(), decoded.calls()),
        ("Hi", vec![call("call_1", "add", "{}")])
    );
}

#[test]
fn f2_3_an_incomplete_answer_says_why() {
    for (reason, stop) in [
        ("max_output_tokens", StopReason::Truncated),
        ("content_filter", StopReason::Refused),
        ("a_new_reason", StopReason::Truncated),
    ] {
        let last = end(
            "incomplete",
            json!({"incomplete_details": {"reason": reason}, "usage": {"output_tokens": 3}}),
        );
        let decoded = decode(&named(&[&[created()], &message(0, "Hi")[..], &[last]].concat()));
        assert_eq!((decoded.stop(), decoded.usage().output), (stop, Some(3)), "{reason}");
    }
}

#[test]
fn f2_3_a_failed_answer_keeps_the_vendors_words() {
    let error = json!({"code": "rate_limit_exceeded", "message": "Please try again in 1.3s."});
    let decoded =
        decode(&named(&[created(), end("failed", json!({"error": error, "usage": null}))]));
    let err = decoded.error();
    assert_eq!((err.kind(), err.code()), (ErrorKind::Api, Some("rate_limit_exceeded")));
    assert!(err.is_retryable());
    assert_eq!(err.retry_after().unwrap().as_millis(), 1300, "it stands in the words alone");
    let spent = end("failed", json!({"error": {"code": "insufficient_quota", "message": "no"}}));
    assert!(!decode(&named(&[spent])).error().is_retryable());
}

#[test]
fn f2_3_an_error_event_is_read_flat_and_nested_and_told_once() {
    let flat = json!({"type": "error", "code": "server_error", "message": "no", "param": null});
    let nested = json!({"type": "error", "error": {"type": "x", "code": "server_error", "message": "no", "param": null}});
    for error in [flat, nested] {
        let failed = end("failed", json!({"error": {"code": "other", "message": "other"}}));
        let decoded = decode(&named(&[created(), error, failed]));
        assert_eq!(
            (decoded.error().code(), decoded.error().message()),
            (Some("server_error"), "no")
        );
    }
}

#[test]
fn f2_3_an_end_without_a_last_event_is_cut_off() {
    let body = named(&[&[created()], &message(0, "Hi")[..]].concat());
    for body in [body.clone(), format!("{body}data: [DONE]\n\n")] {
        assert_eq!(decode(&body).error().kind(), ErrorKind::CutOff);
    }
}

#[test]
fn f2_3_a_refusal_is_words_and_a_reason_to_stop() {
    let events = [
        added(0, json!({"type": "message", "id": "msg_1"})),
        event("refusal.delta", 0, "msg_1", "delta", "I can"),
        event("refusal.done", 0, "msg_1", "refusal", "I cannot."),
    ];
    let decoded = whole(&events);
    assert_eq!((decoded.text().as_str(), decoded.stop()), ("I cannot.", StopReason::Refused));
}

// -- usage

#[test]
fn f2_4_input_and_output_include_their_parts_and_details_may_lack() {
    let usage = |usage: Value| {
        decode(&named(&[created(), end("completed", json!({"usage": usage}))])).usage()
    };
    let full = usage(
        json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 7},
        "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 30}}),
    );
    assert_eq!((full.input, full.cache_read, full.cache_write), (Some(100), Some(60), Some(7)));
    assert_eq!((full.output, full.reasoning), (Some(50), Some(30)));
    let bare = usage(json!({"input_tokens": 1, "output_tokens": 2}));
    assert_eq!((bare.input, bare.cache_read, bare.reasoning), (Some(1), None, None));
    assert_eq!(usage(Value::Null), Default::default());
}

// -- thinking

fn thought(encrypted: Value) -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "One.\n\nTwo."}],
        "encrypted_content": encrypted, "status": "completed"})
}

#[test]
fn f2_5_thinking_is_summed_up_in_parts_and_goes_back_as_the_end_has_it() {
    let summary = |part: u64, text: &str| {
        let mut event = event("reasoning_summary_text.delta", 0, "rs_1", "delta", text);
        event["summary_index"] = json!(part);
        event
    };
    let events = [
        vec![
            added(0, thought(json!("half"))),
            summary(0, "One."),
            summary(1, "Two."),
            done(0, thought(json!("whole"))),
        ],
        called(1, "call_1", "{}"),
    ];
    let decoded = whole(&events.concat());
    assert_eq!(decoded.reasoning(), "One.\n\nTwo.");
    let result = ToolResult::new("call_1", CallOutcome::Succeeded, ["1".into()]);
    let results = Message::new(Role::Tool, [Block::ToolResult(result)]);
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap(), results]);
    let item = &body["input"][1];
    assert_eq!((&item["type"], &item["id"]), (&json!("reasoning"), &json!("rs_1")));
    assert_eq!(item["encrypted_content"], "whole");
    assert_eq!(item["summary"], thought(Value::Null)["summary"]);
    assert_eq!(body["input"][2]["type"], "function_call", "beside what follows it");
}

#[test]
fn f2_5_thinking_that_is_only_encrypted_is_still_kept() {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    let decoded = whole(
        &[
            vec![added(0, json!({"type": "reasoning", "id": "rs_1"})), done(0, item)],
            message(1, "Hi"),
        ]
        .concat(),
    );
    assert_eq!(decoded.reasoning(), "");
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap()]);
    let expected =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    assert_eq!(body["input"][1], expected);
}

#[test]
fn f2_5_thinking_that_is_not_encrypted_is_dropped() {
    let decoded = whole(&[vec![done(0, thought(Value::Null))], message(1, "Hi")].concat());
    assert_eq!(decoded.reasoning(), "One.\n\nTwo.");
    let body = encoded(&[Message::user("?"), decoded.answer().message.unwrap()]);
    assert_eq!(body["input"][1]["type"], "message");
}

#[test]
fn f2_5_open_models_say_their_thinking_in_full() {
    let events = [
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        json!({"type": "response.reasoning_part.added", "output_index": 0, "part": {}}),
        event("reasoning_text.delta", 0, "rs_1", "delta", "Hm."),
        done(
            0,
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}),
        ),
    ];
    assert_eq!(whole(&events).reasoning(), "Hm.");
}

#[test]
fn f2_5_the_phase_of_a_message_goes_back() {
    let mut events = message(0, "Hi");
    events[3]["item"]["phase"] = json!("commentary");
    let body = encoded(&[Message::user("?"), whole(&events).answer().message.unwrap()]);
    let item = &body["input"][1];
    assert_eq!((&item["phase"], &item["id"]), (&json!("commentary"), &json!("msg_1")));
    assert_eq!(item["content"][0]["text"], "Hi");
}

// -- requests

#[test]
fn f2_6_nothing_is_stored_and_thinking_comes_encrypted() {
    let body = encoded(&[Message::user("?")]);
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["instructions"], "Be brief.");
}

#[test]
fn f2_7_strict_is_always_said() {
    assert_eq!(encoded(&[Message::user("?")])["tools"][0]["strict"], false);
}

#[test]
fn f2_7_long_and_foreign_ids_are_rewritten_and_stay_paired() {
    let id = format!("chatcmpl-tool-{}", "x".repeat(80));
    let body = encoded(&[
        Message::user("?"),
        Message::assistant([Block::ToolCall(ToolCall::new(&id, "add", "{\"a\":"))]),
        Message::new(
            Role::Tool,
            [Block::ToolResult(ToolResult::new(&id, CallOutcome::Failed, ["no".into()]))],
        ),
    ]);
    let given = body["input"][1]["call_id"].as_str().unwrap();
    assert_eq!((given.len(), body["input"][2]["call_id"].as_str()), (64, Some(given)));
    assert_eq!(body["input"][1]["arguments"], "{}", "what is no JSON goes as an empty object");
}

#[test]
fn settings_are_said_in_the_vendors_words() {
    let settings = Settings {
        effort: Some(Effort::Low),
        tool_choice: Some(ToolChoice::Tool("add".into())),
        parallel_calls: Some(false),
        max_tokens: Some(7),
        extra: json!({"store": true, "include": null, "tools": [{"type": "web_search"}]})
            .as_object()
            .unwrap()
            .clone(),
        ..Settings::default()
    };
    let body = encoded_with(&[Message::user("?")], settings).unwrap();
    assert_eq!(body["reasoning"], json!({"effort": "low", "summary": "auto"}));
    assert_eq!(body["tool_choice"], json!({"type": "function", "name": "add"}));
    assert_eq!(
        (&body["parallel_tool_calls"], &body["max_output_tokens"]),
        (&json!(false), &json!(7))
    );
    assert_eq!((&body["store"], body.get("include")), (&json!(true), None));
    assert_eq!(
        (&body["tools"][0]["name"], &body["tools"][1]["type"]),
        (&json!("add"), &json!("web_search"))
    );

    let input = Settings {
        extra: json!({"input": []}).as_object().unwrap().clone(),
        ..Settings::default()
    };
    let err = encoded_with(&[Message::user("?")], input).unwrap_err();
    assert!(err.is_configuration() && err.message().contains("`input`"));
}

#[test]
fn pictures_go_with_words_and_with_results() {
    let picture = ToolContent::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"));
    let body = encoded(&[
        Message::user("?"),
        Message::assistant([Block::ToolCall(ToolCall::new("c", "add", "{}"))]),
        Message::new(
            Role::Tool,
            [Block::ToolResult(ToolResult::new(
                "c",
                CallOutcome::Succeeded,
                ["x".into(), picture],
            ))],
        ),
    ]);
    let expected = json!([{"type": "input_text", "text": "x"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}]);
    assert_eq!(body["input"][2]["output"], expected);
}

#[test]
fn thinking_of_another_vendor_is_left_out_and_the_rest_goes_on() {
    let data = Some(VendorData::new("anthropic", r#"{"signature":"s","id":"msg_9"}"#).unwrap());
    let body = encoded(&[
        Message::user("?"),
        Message::assistant([
            Block::Reasoning(ReasoningBlock::new("Hm.", data.clone())),
            Block::Text(TextBlock::new("Hi").with_vendor(data)),
        ]),
    ]);
    let expected = json!({"type": "message", "role": "assistant", "content": "Hi"});
    assert_eq!((body["input"].as_array().unwrap().len(), &body["input"][1]), (2, &expected));
}

// -- servers that speak it too

#[test]
fn llama_cpp_gives_no_places_and_ends_no_item() {
    let strip = |mut event: Value| {
        event.as_object_mut().unwrap().remove("output_index");
        event
    };
    let events = [
        vec![
            added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
            event("reasoning_text.delta", 0, "rs_1", "delta", "Hm."),
        ],
        called(1, "call_1", r#"{"a":1}"#),
        called(2, "call_2", r#"{"b":1}"#),
    ];
    let events: Vec<Value> = events.concat().into_iter().map(strip).collect();
    let output = json!([{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": ""}]);
    let body = named(
        &[&[created()], &events[..], &[end("completed", json!({"output": output}))]].concat(),
    );
    let decoded = decode(&body);
    assert_eq!(decoded.reasoning(), "Hm.");
    let calls = [call("call_1", "add", r#"{"a":1}"#), call("call_2", "add", r#"{"b":1}"#)];
    assert_eq!(decoded.calls(), calls);
}

#[test]
fn an_answer_in_one_piece_is_read() {
    let body = json!({"object": "response", "id": "resp_1", "status": "completed", "error": null, "output": [
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}]});
    let mut decoder = responses::decoder(Default::default());
    decoder.push_whole(body.to_string().as_bytes()).unwrap();
    assert!(decoder.is_complete());
}

#[test]
fn f2_2_calls_of_another_vendor_stand_one_after_the_other() {
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "add", "{}"));
    let result =
        |id: &str| Block::ToolResult(ToolResult::new(id, CallOutcome::Succeeded, ["1".into()]));
    let said = [Block::text("One."), call("a"), Block::text("Two."), call("b")];
    let body = encoded(&[
        Message::user("?"),
        Message::assistant(said),
        Message::new(Role::Tool, [result("a"), result("b")]),
    ]);
    let kinds: Vec<&str> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "message",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output"
        ]
    );
}

fn encoded_with(messages: &[Message], settings: Settings) -> Result<Value, harness::Error> {
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
    let options = responses::Options { settings, ..responses::Options::new("m") };
    let body = responses::encode(&request, &options)?;
    Ok(serde_json::from_slice(&body).unwrap())
}

fn encoded(messages: &[Message]) -> Value {
    encoded_with(messages, Settings::default()).unwrap()
}
