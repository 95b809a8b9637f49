//! The Chat Completions wire: the documented protocol, and each known deviation of servers.

use harness::{
    Block, CallOutcome, ErrorKind, Media, Message, ReasoningBlock, Role, StopReason, ToolCall,
    ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{Effort, Request, Settings, ToolChoice},
    tool::ToolSchema,
    wire::chat::{self, CallIds, DecodeOptions, Options, ThinkTags, ThoughtReplay},
};
use serde_json::{Value, json};

use crate::decoded::{Call, Decoded, both_ways, call, unnamed};

fn decode(body: &str) -> Decoded {
    both_ways("chat", body, DecodeOptions::default())
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn said(text: &str) -> Value {
    chunk(json!({"content": text}), Value::Null)
}

/// A chunk of fragments of calls.
fn calls(calls: Value) -> Value {
    chunk(json!({"tool_calls": calls}), Value::Null)
}

fn fragment(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    calls(json!([{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]))
}

/// A stream of these chunks with its last word.
fn body(chunks: &[Value]) -> String {
    format!("{}data: [DONE]\n\n", unnamed(chunks))
}

/// A whole answer of these chunks.
fn whole(chunks: &[Value], finish: &str) -> Decoded {
    decode(&body(&[chunks, &[chunk(json!({}), json!(finish))]].concat()))
}

fn called(fragments: &[Value]) -> Vec<Call> {
    whole(fragments, "tool_calls").calls()
}

const N: Value = Value::Null;

#[test]
fn a_standard_stream_is_read() {
    let usage = json!({"id": "c1", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}});
    let chunks = [
        chunk(json!({"role": "assistant", "content": ""}), N),
        said("Let "),
        said("me."),
        fragment(json!(0), json!("call_a"), json!("add"), json!("")),
        fragment(json!(0), N, N, json!("{\"a\":")),
        fragment(json!(1), json!("call_b"), json!("sub"), json!("")),
        fragment(json!(0), N, N, json!("1}")),
        fragment(json!(1), N, N, json!("{}")),
        chunk(json!({}), json!("tool_calls")),
        usage,
    ];
    let decoded = decode(&body(&chunks));
    assert_eq!(decoded.text(), "Let me.");
    assert_eq!(decoded.calls(), [call("call_a", "add", "{\"a\":1}"), call("call_b", "sub", "{}")]);
    assert_eq!(decoded.stop(), StopReason::ToolCalls);
    assert_eq!((decoded.usage().input, decoded.usage().output), (Some(10), Some(4)));
}

#[test]
fn each_reason_to_stop_has_its_meaning() {
    for (reason, stop) in [
        ("stop", StopReason::Complete),
        ("length", StopReason::Truncated),
        ("content_filter", StopReason::Refused),
        ("tool_calls", StopReason::Complete),
        ("a_new_reason", StopReason::Complete),
    ] {
        assert_eq!(whole(&[said("Hi")], reason).stop(), stop, "{reason}");
    }
    let refused = whole(&[chunk(json!({"refusal": "No."}), N)], "stop");
    assert_eq!((refused.text().as_str(), refused.stop()), ("No.", StopReason::Refused));
}

#[test]
fn d01_reasoning_stands_in_many_fields_and_is_told_once() {
    for fields in [
        json!({"reasoning_content": "Hm."}),
        json!({"reasoning": "Hm."}),
        json!({"reasoning_text": "Hm."}),
        json!({"thinking": "Hm."}),
        json!({"reasoning_content": "", "reasoning": "Hm."}),
        json!({"reasoning_content": "Hm.", "reasoning": "Hm."}),
        json!({"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}]}),
        json!({"reasoning": null, "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}]}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}),
    ] {
        let decoded = whole(&[chunk(fields.clone(), N), said("Hi")], "stop");
        assert_eq!(
            (decoded.reasoning().as_str(), decoded.text().as_str()),
            ("Hm.", "Hi"),
            "{fields}"
        );
    }
    let list = json!({"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}, {"type": "new"}]});
    assert_eq!(whole(&[chunk(list, N)], "stop").text(), "Hi");
}

#[test]
fn d01_reasoning_details_are_kept_for_the_way_back() {
    let detail = |more: Value| {
        let mut detail = json!({"type": "reasoning.text", "index": 0, "format": "f"});
        detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chunk(json!({"reasoning_details": [detail]}), N)
    };
    let secret = json!({"type": "reasoning.encrypted", "data": "E", "id": "r", "index": 1});
    let decoded = whole(
        &[
            detail(json!({"text": "H"})),
            detail(json!({"text": "m."})),
            detail(json!({"signature": "sig"})),
            chunk(json!({"reasoning_details": [secret]}), N),
        ],
        "stop",
    );
    let whole_text = json!({"type": "reasoning.text", "index": 0, "format": "f", "text": "Hm.", "signature": "sig"});
    assert_eq!(decoded.kept(), [json!({"reasoning_details": [whole_text, secret]})]);
}

#[test]
fn d02_think_tags_are_split_where_that_is_asked_for() {
    let read = |text: &[&str], think_tags| {
        let mut chunks: Vec<Value> = text.iter().map(|text| said(text)).collect();
        chunks.push(chunk(json!({}), json!("stop")));
        let reading = DecodeOptions { think_tags, ..DecodeOptions::default() };
        let decoded = both_ways("chat", &body(&chunks), reading);
        (decoded.reasoning(), decoded.text())
    };
    let text = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(read(&["<think>a</think>b"], ThinkTags::Split), text("a", "b"));
    assert_eq!(
        read(&["<th", "ink>", "a</", "think", ">b <", "3"], ThinkTags::Split),
        text("a", "b <3")
    );
    assert_eq!(read(&["a</thi", "nk>b"], ThinkTags::SplitOpen), text("a", "b"));
    assert_eq!(read(&["<think>a</think>b"], ThinkTags::Keep), text("", "<think>a</think>b"));
    assert_eq!(read(&["a <thin"], ThinkTags::Split), text("", "a <thin"));
    // Many in one piece are read once.
    let many = "<think>a</think>b".repeat(100_000);
    let chunks = [said(&many), chunk(json!({}), json!("stop"))];
    let reading = DecodeOptions { think_tags: ThinkTags::Split, ..DecodeOptions::default() };
    let decoded = crate::decoded::read("chat", &[body(&chunks).as_bytes()], reading);
    assert_eq!((decoded.reasoning().len(), decoded.text().len()), (100_000, 100_000));
}

#[test]
fn d03_whole_calls_several_at_once_and_in_the_last_chunk() {
    let list = json!([
        {"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":1}"}},
        {"index": 1, "id": "b", "function": {"name": "add", "arguments": "{\"x\":2}"}},
    ]);
    let decoded = decode(&body(&[chunk(json!({"tool_calls": list}), json!("tool_calls"))]));
    assert_eq!(decoded.calls(), [call("a", "add", "{\"x\":1}"), call("b", "add", "{\"x\":2}")]);
    assert_eq!(decoded.stop(), StopReason::ToolCalls);
}

#[test]
fn d04_without_an_index_calls_are_told_by_id_and_name() {
    let fragments = [
        fragment(N, json!("a"), json!("add"), json!("{\"x\":")),
        fragment(N, json!("a"), N, json!("1}")),
        fragment(N, json!("b"), json!("add"), json!("{\"x\":2}")),
        fragment(N, N, json!("sub"), json!("{\"y\":")),
        fragment(N, N, N, json!("3}")),
    ];
    let expected = [
        call("a", "add", "{\"x\":1}"),
        call("b", "add", "{\"x\":2}"),
        call("", "sub", "{\"y\":3}"),
    ];
    assert_eq!(called(&fragments), expected);
}

#[test]
fn d05_index_always_zero_for_parallel_calls() {
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":1}")),
        fragment(json!(0), json!("b"), json!("add"), json!("{\"x\":2}")),
        fragment(json!(0), json!("c"), json!("now"), json!("")),
        fragment(json!(0), N, N, json!("{}")),
    ];
    let expected =
        [call("a", "add", "{\"x\":1}"), call("b", "add", "{\"x\":2}"), call("c", "now", "{}")];
    assert_eq!(called(&fragments), expected);
}

#[test]
fn d06_a_new_id_on_every_fragment_of_one_call() {
    let fragments = [
        fragment(json!(0), json!("a1"), json!("add"), json!("{\"x\":")),
        fragment(json!(0), json!("a2"), N, json!("{\"y\":")),
        fragment(json!(0), json!("a3"), json!(""), json!("1}}")),
    ];
    assert_eq!(called(&fragments), [call("a1", "add", "{\"x\":{\"y\":1}}")]);
    // The name may be repeated with it.
    let fragments = [
        fragment(json!(0), json!("a1"), json!("add"), json!("{\"x\":")),
        fragment(json!(0), json!("a2"), json!("add"), json!("1}")),
    ];
    assert_eq!(called(&fragments), [call("a1", "add", "{\"x\":1}")]);
}

#[test]
fn d07_one_id_for_several_calls() {
    // The same id at other places.
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":1}")),
        fragment(json!(1), json!("a"), json!("add"), json!("{\"x\":2}")),
    ];
    let calls = [call("a", "add", "{\"x\":1}"), call("a", "add", "{\"x\":2}")];
    assert_eq!(called(&fragments), calls);
    assert_eq!(ids(&fragments), ["a", "a_2"]);
    // The same id at the same place: only the name differs, or a fresh value begins.
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":1}")),
        fragment(json!(0), json!("a"), json!("sub"), json!("{\"x\":2}")),
        fragment(json!(0), json!("a"), json!("sub"), json!("{\"x\":3}")),
    ];
    let expected = [
        call("a", "add", "{\"x\":1}"),
        call("a", "sub", "{\"x\":2}"),
        call("a", "sub", "{\"x\":3}"),
    ];
    assert_eq!(called(&fragments), expected);
    assert_eq!(ids(&fragments), ["a", "a_2", "a_3"]);
}

/// The ids that the calls have in the end.
fn ids(fragments: &[Value]) -> Vec<String> {
    let message = whole(fragments, "tool_calls").answer().message.unwrap();
    message.calls().map(|call| call.id().to_owned()).collect()
}

#[test]
fn d08_blank_ids_are_no_ids_and_one_is_made_if_none_comes() {
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":")),
        fragment(json!(0), json!(""), N, json!("1}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{\"x\":1}")]);
    let none = [
        fragment(json!(0), N, json!("add"), json!("{}")),
        fragment(json!(1), json!(" "), json!("add"), json!("{}")),
    ];
    let message = whole(&none, "stop").answer().message.unwrap();
    let ids: Vec<&str> = message.calls().map(ToolCall::id).collect();
    assert!(!ids[0].is_empty() && !ids[1].is_empty() && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn d08_an_id_may_come_after_the_name() {
    let fragments = [
        fragment(json!(0), N, json!("add"), json!("")),
        fragment(json!(0), json!("a"), N, json!("{}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{}")]);
}

#[test]
fn d09_names_are_set_once_and_never_joined() {
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("")),
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":")),
        fragment(json!(0), json!("a"), json!(""), json!("1")),
        fragment(json!(0), json!("a"), N, json!("}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{\"x\":1}")]);
}

#[test]
fn d10_a_name_may_come_after_the_first_arguments() {
    let fragments = [
        fragment(json!(0), json!("a"), N, json!("{\"x\":")),
        fragment(json!(0), N, json!("add"), json!("1")),
        fragment(json!(0), N, N, json!("}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{\"x\":1}")]);
}

#[test]
fn d11_arguments_may_be_null_empty_an_object_or_a_string_in_a_string() {
    let one = |arguments: Value| called(&[fragment(json!(0), json!("a"), json!("add"), arguments)]);
    for (given, expected) in [
        (N, ""),
        (json!(""), ""),
        (json!("null"), ""),
        (json!({"x": 1}), "{\"x\":1}"),
        (json!("\"{\\\"x\\\":1}\""), "{\"x\":1}"),
        (json!("[23]"), "[23]"),
        (json!("false"), "false"),
        (json!("nonsense"), "nonsense"),
    ] {
        assert_eq!(one(given.clone()), [call("a", "add", expected)], "{given}");
    }
}

#[test]
fn d12_calls_are_there_whatever_the_reason_to_stop() {
    let fragments = [fragment(json!(0), json!("a"), json!("add"), json!("{}"))];
    for reason in ["stop", "tool_calls", "function_call", "eos", "STOP"] {
        assert_eq!(whole(&fragments, reason).stop(), StopReason::ToolCalls, "{reason}");
    }
    let blank =
        [chunk(json!({"content": "H"}), json!("")), chunk(json!({"content": "i"}), json!(""))];
    assert_eq!(whole(&blank, "stop").text(), "Hi");
}

#[test]
fn d12_an_error_as_the_reason_to_stop_is_an_error() {
    let decoded =
        whole(&[said("Hi"), fragment(json!(0), json!("a"), json!("add"), json!("{}"))], "error");
    assert_eq!((decoded.error().kind(), decoded.error().code()), (ErrorKind::Api, Some("error")));
}

#[test]
fn d13_a_call_that_was_cut_off_may_be_told_as_whole() {
    let decoded =
        whole(&[fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":"))], "tool_calls");
    // It is for whoever runs calls to see that this is no JSON.
    assert_eq!(decoded.calls(), [call("a", "add", "{\"x\":")]);
}

#[test]
fn d14_at_the_limit_no_call_is_whole_unless_its_arguments_are() {
    for arguments in ["", "{\"x\":", "null"] {
        let decoded = whole(
            &[said("Let me."), fragment(json!(0), json!("a"), json!("add"), json!(arguments))],
            "length",
        );
        assert!(decoded.calls().iter().all(|call| !call.ended), "{arguments:?}");
        let answer = decoded.answer();
        assert_eq!(
            (answer.stop, answer.message.unwrap().calls().count()),
            (StopReason::Truncated, 0)
        );
    }
}

#[test]
fn d15_a_repeated_reason_to_stop_ends_calls_once() {
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2});
    let mut last = chunk(json!({"content": ""}), json!("tool_calls"));
    last["usage"] = usage;
    let chunks = [
        fragment(json!(0), json!("a"), json!("add"), json!("{}")),
        chunk(json!({}), json!("tool_calls")),
        last,
    ];
    let decoded = decode(&body(&chunks));
    assert_eq!((decoded.calls(), decoded.usage().output), (vec![call("a", "add", "{}")], Some(2)));
}

#[test]
fn d16_an_end_without_a_reason_is_cut_off_unless_the_server_is_known_for_it() {
    let stream = body(&[said("Hi")]);
    assert_eq!(decode(&stream).error().kind(), ErrorKind::CutOff);
    let reading = DecodeOptions { done_is_enough: true, ..DecodeOptions::default() };
    assert_eq!(both_ways("chat", &stream, reading).stop(), StopReason::Complete);
    let cut = unnamed(&[said("Hi")]);
    assert_eq!(both_ways("chat", &cut, reading).error().kind(), ErrorKind::CutOff);
}

#[test]
fn d17_a_reason_to_stop_is_an_end_without_done() {
    let stream = unnamed(&[said("Hi"), chunk(json!({}), json!("stop"))]);
    assert_eq!(decode(&stream).stop(), StopReason::Complete);
    assert_eq!(decode(stream.trim_end()).stop(), StopReason::Complete, "nor a blank line");
}

#[test]
fn d18_what_follows_done_does_not_matter() {
    let stream = body(&[said("Hi"), chunk(json!({}), json!("stop"))]);
    let decoded =
        decode(&format!("{stream}data: {{\"choices\":[],\"cost\":\"0\"}}\n\ndata: junk\n\n"));
    assert_eq!((decoded.text().as_str(), decoded.stop()), ("Hi", StopReason::Complete));
}

#[test]
fn d19_usage_stands_in_many_places_and_the_last_one_counts() {
    let with = |name: &str, usage: Value| {
        let mut chunk = said("");
        chunk[name] = usage;
        chunk
    };
    let counted = |n: u64| json!({"prompt_tokens": 5, "completion_tokens": n});
    let several = [with("usage", counted(1)), with("usage", counted(9)), with("usage", N)];
    assert_eq!(whole(&several, "stop").usage().output, Some(9));
    let groq = whole(&[with("x_groq", json!({"id": "r", "usage": counted(3)}))], "stop").usage();
    assert_eq!((groq.input, groq.output), (Some(5), Some(3)));
    let top = whole(
        &[with(
            "usage",
            json!({"prompt_tokens": 1, "completion_tokens": 9, "reasoning_tokens": 4}),
        )],
        "stop",
    );
    assert_eq!(top.usage().reasoning, Some(4));
    let hit =
        whole(&[with("usage", json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}))], "stop");
    assert_eq!(hit.usage().cache_read, Some(4));
    assert_eq!(whole(&[said("Hi")], "stop").usage(), Default::default(), "unknown is not 0");
}

#[test]
fn d20_output_includes_thinking_where_the_vendor_leaves_it_out() {
    let usage = |completion: u64, total: u64, reasoning: u64| {
        let mut last = said("");
        last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": completion, "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": reasoning}});
        let usage = whole(&[last], "stop").usage();
        (usage.output, usage.reasoning)
    };
    assert_eq!(usage(20, 130, 100), (Some(120), Some(100)), "it is added");
    assert_eq!(usage(120, 130, 100), (Some(120), Some(100)), "it is included already");
}

#[test]
fn d21_every_member_may_be_missing_or_null() {
    let chunks = [
        json!({"choices": [], "prompt_filter_results": [{}], "id": "", "model": ""}),
        json!({"choices": [{"index": 0, "delta": {"role": "", "content": null, "tool_calls": null}}]}),
        json!({"choices": [{"delta": {"role": "assistant", "tool_calls": [], "content": "Hi"}}]}),
        json!({"choices": [{"finish_reason": null}]}),
        json!({"choices": null}),
        json!({}),
        json!({"choices": [{"delta": null, "finish_reason": "stop"}]}),
    ];
    assert_eq!(decode(&body(&chunks)).text(), "Hi");
}

#[test]
fn d21_other_choices_are_left_alone() {
    let mut other = said("No");
    other["choices"][0]["index"] = json!(1);
    assert_eq!(whole(&[said("Hi"), other], "stop").text(), "Hi");
}

#[test]
fn d22_a_message_beside_the_delta_is_ignored_and_instead_of_it_is_read() {
    let beside = |so_far: &str, new: &str| {
        let mut chunk = said(new);
        chunk["choices"][0]["message"] = json!({"content": so_far});
        chunk
    };
    assert_eq!(whole(&[beside("H", "H"), beside("Hi", "i")], "stop").text(), "Hi");
    let instead = |so_far: &str| json!({"choices": [{"index": 0, "message": {"content": so_far}}]});
    assert_eq!(whole(&[instead("H"), instead("Hi"), instead("Hi")], "stop").text(), "Hi");
}

#[test]
fn d23_errors_inside_a_success_come_in_many_shapes() {
    let groq = "event: error\ndata: {\"error\":{\"message\":\"bad call\",\"type\":\"invalid_request_error\",\
        \"code\":\"tool_use_failed\",\"failed_generation\":\"x\",\"status_code\":400}}\n\n";
    let router = "data: {\"id\":\"g\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}],\
        \"error\":{\"code\":502,\"message\":\"Upstream failed\"}}\n\n";
    let llama_box = "error: {\"code\":500,\"message\":\"broken\",\"type\":\"server_error\"}\n\n";
    let vllm = "data: {\"object\":\"error\",\"message\":\"engine died\",\"type\":\"InternalServerError\",\"code\":500}\n\ndata: [DONE]\n\n";
    let plain = "data: {\"error\":\"overloaded\"}\n\n";
    for (stream, status, code, message) in [
        (groq, Some(400), Some("tool_use_failed"), "bad call"),
        (router, Some(502), Some("502"), "Upstream failed"),
        (llama_box, Some(500), Some("server_error"), "broken"),
        (vllm, Some(500), Some("InternalServerError"), "engine died"),
        (plain, None, None, "overloaded"),
    ] {
        let decoded = decode(&format!("{}{stream}", unnamed(&[said("Hi")])));
        let err = decoded.error();
        assert_eq!(
            (err.kind(), err.status(), err.code(), err.message()),
            (ErrorKind::Api, status, code, message)
        );
        assert_eq!(decoded.text(), "Hi", "what came before it is kept");
    }
}

#[test]
fn d24_lines_are_written_in_every_way() {
    let stream = body(&[said("Hi"), chunk(json!({}), json!("stop"))]);
    for stream in [
        stream.replace('\n', "\r\n"),
        stream.replace("data: ", "data:"),
        format!(": OPENROUTER PROCESSING\n\n{stream}"),
        stream.replace("data:", "event: chunk\ndata:"),
        format!("\u{feff}{stream}"),
        stream.trim_end().to_owned(),
    ] {
        assert_eq!(decode(&stream).text(), "Hi", "{stream:?}");
    }
}

#[test]
fn d25_unknown_values_and_types_fail_nothing() {
    let mut odd = said("Hi");
    odd["service_tier"] = json!("on_demand");
    odd["created"] = json!(1753879075170.5);
    odd["system_fingerprint"] = json!(7);
    odd["id"] = json!(12);
    odd["choices"][0]["logprobs"] = json!("x");
    odd["choices"][0]["index"] = json!("0");
    assert_eq!(whole(&[odd], "stop").text(), "Hi");
}

#[test]
fn d26_ids_are_such_as_the_server_takes_and_always_the_same() {
    let options = Options { call_ids: CallIds::Nine, ..Options::new("m") };
    let long = format!("chatcmpl-tool-{}", "a".repeat(60));
    for given in ["functions.add:0", "functions.add:1", &long, "abcDEF123"] {
        let messages = with_call(given, None);
        let body = encoded_with(&messages, &options);
        let id = body["messages"][2]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
        assert_eq!(body["messages"][3]["tool_call_id"], id);
        assert_eq!(encoded_with(&messages, &options), body);
        let plain = encoded_with(&messages, &Options::new("m"));
        assert!(plain["messages"][3]["tool_call_id"].as_str().unwrap().len() <= 64);
    }
    assert_eq!(
        encoded_with(&with_call("abcDEF123", None), &options)["messages"][3]["tool_call_id"],
        "abcDEF123"
    );
}

#[test]
fn d27_thinking_goes_back_as_each_server_wants_it() {
    let details = json!([{"type": "reasoning.text", "text": "Hm."}]);
    let data = json!({"field": "reasoning", "reasoning_details": details}).to_string();
    let thought =
        |wire: &str| ReasoningBlock::new("Hm.", Some(VendorData::new(wire, data.clone()).unwrap()));
    let sent = |thought: Option<ReasoningBlock>, replay: ThoughtReplay| {
        let options = Options { thought: replay, ..Options::new("m") };
        encoded_with(&with_call("a", thought), &options)["messages"][2].clone()
    };
    let off = sent(Some(thought("chat")), ThoughtReplay::Off);
    assert_eq!((off.get("reasoning"), off.get("reasoning_content")), (None, None));
    assert_eq!(sent(Some(thought("chat")), ThoughtReplay::SameField)["reasoning"], "Hm.");
    let field = ThoughtReplay::Field("reasoning_content".into());
    assert_eq!(sent(Some(thought("chat")), field.clone())["reasoning_content"], "Hm.");
    assert_eq!(sent(None, field)["reasoning_content"], "", "even if there is none");
    assert_eq!(sent(Some(thought("chat")), ThoughtReplay::Details)["reasoning_details"], details);
    // Another vendor's thinking is not sent.
    let foreign = sent(Some(thought("anthropic")), ThoughtReplay::SameField);
    assert_eq!((foreign.get("reasoning"), foreign.get("reasoning_content")), (None, None));
}

#[test]
fn d28_content_beside_calls_is_left_out_if_there_is_none() {
    let message = &encoded_with(&with_call("a", None), &Options::new("m"))["messages"][2];
    assert_eq!((message.get("content"), &message["role"]), (None, &json!("assistant")));
}

#[test]
fn d29_there_is_one_system_message_and_it_leads() {
    let body = encoded_with(&[Message::user("?")], &Options::new("m"));
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user"]);
}

#[test]
fn d30_a_stream_that_ends_in_the_middle_is_cut_off() {
    let stream = body(&[said("Hello"), said(" there"), chunk(json!({}), json!("stop"))]);
    let last = stream.find("\"finish_reason\":\"stop\"").unwrap();
    for at in 0..last {
        let decoded = decode_at(&stream, at);
        assert_eq!(decoded.error().kind(), ErrorKind::CutOff, "cut at {at}");
    }
}

fn decode_at(stream: &str, at: usize) -> Decoded {
    crate::decoded::read("chat", &[&stream.as_bytes()[..at]], DecodeOptions::default())
}

// -- which call a fragment belongs to, rule by rule

#[test]
fn r3_3_1_a_known_id_leads_to_its_call() {
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{\"x\":")),
        fragment(json!(1), json!("b"), json!("sub"), json!("{\"y\":")),
        fragment(N, json!("a"), N, json!("1}")),
        fragment(json!(1), json!("b"), N, json!("2}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{\"x\":1}"), call("b", "sub", "{\"y\":2}")]);
}

#[test]
fn r3_3_2_an_unknown_id_at_a_used_place_is_a_call_only_if_it_looks_like_one() {
    // A name, and what was there is whole.
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{}")),
        fragment(json!(0), json!("b"), json!("add"), json!("")),
        fragment(json!(0), json!("b"), N, json!("{\"x\":1}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{}"), call("b", "add", "{\"x\":1}")]);
}

#[test]
fn r3_3_3_an_id_at_an_unused_place_is_a_call() {
    let fragments = [
        fragment(json!(3), json!("a"), json!("add"), json!("{}")),
        fragment(json!(7), json!("b"), json!("add"), json!("{}")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{}"), call("b", "add", "{}")]);
}

#[test]
fn r3_3_4_without_an_id_a_fresh_value_after_a_whole_one_is_a_call() {
    let fragments = [
        fragment(json!(0), N, json!("add"), json!("{\"x\":1}")),
        fragment(json!(0), N, json!("add"), json!("{\"x\":2}")),
        fragment(json!(0), N, json!("sub"), json!("")),
        fragment(json!(0), N, N, json!("{\"y\":{")),
        fragment(json!(0), N, N, json!("}}")),
    ];
    let calls = called(&fragments);
    let arguments: Vec<(&str, &str)> =
        calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(arguments, [("add", "{\"x\":1}"), ("add", "{\"x\":2}"), ("sub", "{\"y\":{}}")]);
}

#[test]
fn r3_3_5_without_id_index_and_name_only_one_open_call_can_be_meant() {
    let fragments = [
        fragment(N, json!("a"), json!("add"), json!("{}")),
        fragment(N, json!("b"), json!("sub"), json!("{\"y\":")),
        fragment(N, N, N, json!("2}")),
        fragment(N, N, N, json!("lost")),
    ];
    // What belongs to no call is kept as one that does not run.
    let expected = [call("a", "add", "{}"), call("b", "sub", "{\"y\":2}"), call("", "", "lost")];
    assert_eq!(called(&fragments), expected);
}

#[test]
fn r3_3_arguments_that_happen_to_parse_are_not_over() {
    let fragments = [
        fragment(json!(0), json!("a"), json!("add"), json!("{}")),
        fragment(json!(0), N, N, json!(" ")),
        fragment(json!(0), N, N, json!("\n")),
    ];
    assert_eq!(called(&fragments), [call("a", "add", "{} \n")]);
}

#[test]
fn calls_from_before_they_had_ids_are_read() {
    let chunks = [
        chunk(json!({"function_call": {"name": "add", "arguments": ""}}), N),
        chunk(json!({"function_call": {"arguments": "{\"x\":1}"}}), N),
    ];
    let decoded = whole(&chunks, "function_call");
    assert_eq!(
        (decoded.calls(), decoded.stop()),
        (vec![call("", "add", "{\"x\":1}")], StopReason::ToolCalls)
    );
}

// -- requests

#[test]
fn settings_are_said_in_the_protocols_words() {
    let settings = Settings {
        effort: Some(Effort::Low),
        tool_choice: Some(ToolChoice::Tool("add".into())),
        max_tokens: Some(7),
        stop: vec!["END".into()],
        temperature: Some(0.5),
        ..Settings::default()
    };
    let options = Options { settings, ..Options::new("m") };
    let body = encoded_with(&[Message::user("?")], &options);
    assert_eq!((&body["reasoning_effort"], &body["stop"]), (&json!("low"), &json!(["END"])));
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "add"}}));
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(7), &json!(0.5)));
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["tools"][0]["function"].get("strict"), None, "it is the default");
    let named = Options { max_completion_tokens: true, ask_for_usage: false, ..options };
    let body = encoded_with(&[Message::user("?")], &named);
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(7), None));
    assert_eq!(body.get("stream_options"), None);
}

#[test]
fn arguments_that_are_no_object_go_as_an_empty_one() {
    let call = ToolCall::new("a", "add", "{\"x\":");
    let result = ToolResult::new("a", CallOutcome::Failed, ["`{\"x\":` is no JSON".into()]);
    let messages = [
        Message::user("?"),
        Message::assistant([Block::ToolCall(call)]),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ];
    let body = encoded_with(&messages, &Options::new("m"));
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], "{}");
}

#[test]
fn pictures_of_tools_are_shown_after_all_results() {
    let picture = ToolContent::Image(Media::from_bytes("image/png", b"\x89PNG\r\n\x1a\n"));
    let messages = [
        Message::user("?"),
        Message::assistant(["a", "b"].map(|id| Block::ToolCall(ToolCall::new(id, "add", "{}")))),
        Message::new(
            Role::Tool,
            [
                Block::ToolResult(ToolResult::new("a", CallOutcome::Succeeded, [picture])),
                Block::ToolResult(ToolResult::new("b", CallOutcome::Succeeded, ["2".into()])),
            ],
        ),
    ];
    let body = encoded_with(&messages, &Options::new("m"));
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    assert_eq!(
        body["messages"][5]["content"][1]["image_url"]["url"],
        "data:image/png;base64,iVBORw0KGgo="
    );
}

#[test]
fn an_answer_in_one_piece_is_read() {
    let body = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": "Hi", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "add", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let mut decoder = chat::decoder(Default::default(), DecodeOptions::default());
    decoder.push_whole(body.to_string().as_bytes()).unwrap();
    let events = std::iter::from_fn(|| decoder.next_event()).collect();
    let decoded = Decoded { events, end: Ok(()), heard: 0 };
    assert_eq!((decoded.text().as_str(), decoded.calls()), ("Hi", vec![call("a", "add", "{}")]));
}

/// A conversation with one call of this id.
fn with_call(id: &str, thought: Option<ReasoningBlock>) -> Vec<Message> {
    let thought = thought.map(Block::Reasoning);
    let call = Block::ToolCall(ToolCall::new(id, "add", "{}"));
    let result = ToolResult::new(id, CallOutcome::Succeeded, ["1".into()]);
    vec![
        Message::user("?"),
        Message::assistant(thought.into_iter().chain([call])),
        Message::new(Role::Tool, [Block::ToolResult(result)]),
    ]
}

fn encoded_with(messages: &[Message], options: &Options) -> Value {
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
    serde_json::from_slice(&chat::encode(&request, options).unwrap()).unwrap()
}
