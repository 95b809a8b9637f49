//! The bodies of the fakes: their events in the vendors' order, and how a decoder reads them.

use harness::{
    Block, Error, ErrorKind, StopReason, Usage,
    provider::{Accumulator, ProviderResponse, ResponseSizeLimits},
    testing::{anthropic, chat, outline, responses},
    wire::{self, chat::DecodeOptions},
};
use serde_json::{Value, json};

/// The names of the events, one a line, with `..` for a name that is repeated.
fn names(events: &[Value]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for event in events {
        let name = event["type"].as_str().unwrap();
        let inner =
            ["content_block", "delta", "item"].iter().find_map(|key| event[key].get("type"));
        let line = match inner {
            Some(inner) => format!("{name} {}", inner.as_str().unwrap()),
            None => name.to_owned(),
        };
        match lines.last_mut() {
            Some(last) if *last == line || *last == format!("{line} ..") => {
                *last = format!("{line} ..");
            }
            _ => lines.push(line),
        }
    }
    lines.join("\n")
}

/// What our own decoders make of a body. A macro, because the decoders share no public trait.
macro_rules! read {
    ($decoder:expr, $body:expr) => {{
        let mut decoder = $decoder;
        let mut answer = Accumulator::default();
        let pushed = decoder.push($body.to_string().as_bytes());
        let finished = pushed.and_then(|()| decoder.finish());
        while let Some(event) = decoder.next_event() {
            answer.push(&event)?;
        }
        finished?;
        answer.finish()
    }};
}

trait Readable {
    fn read(&self) -> Result<ProviderResponse, Error>;
}

impl Readable for anthropic::AnthropicBody {
    fn read(&self) -> Result<ProviderResponse, Error> {
        read!(wire::anthropic::decoder(ResponseSizeLimits::default()), self)
    }
}

impl Readable for responses::ResponsesBody {
    fn read(&self) -> Result<ProviderResponse, Error> {
        read!(wire::responses::decoder(ResponseSizeLimits::default()), self)
    }
}

impl Readable for chat::ChatBody {
    fn read(&self) -> Result<ProviderResponse, Error> {
        read!(wire::chat::decoder(ResponseSizeLimits::default(), DecodeOptions::default()), self)
    }
}

/// The words, the calls and the thinking of an answer.
fn said(answer: &ProviderResponse) -> String {
    outline(answer.message.as_slice())
}

#[test]
fn anthropic_says_it_in_the_order_of_the_service() {
    let body = anthropic::body()
        .thinking("Hm, hm.", "sig")
        .text("Let me see.")
        .call("toolu_1", "weather", json!({"city": "Oslo"}))
        .call("toolu_2", "now", json!({}));
    let expected = "
message_start
content_block_start thinking
ping
content_block_delta thinking_delta ..
content_block_delta signature_delta
content_block_stop
content_block_start text
content_block_delta text_delta ..
content_block_stop
content_block_start tool_use
content_block_delta input_json_delta ..
content_block_stop
content_block_start tool_use
content_block_delta input_json_delta
content_block_stop
message_delta
message_stop";
    assert_eq!(names(&body.events()), expected.trim());
}

#[test]
fn anthropic_is_read_as_it_was_said() {
    let body = anthropic::body()
        .thinking("Hm.", "sig")
        .text("Let me see.")
        .call("toolu_1", "weather", json!({"city": "Oslo"}))
        .call("toolu_2", "now", json!({}))
        .usage(100, 40)
        .cache(20, 3)
        .thinking_tokens(7);
    let answer = body.read().unwrap();
    let expected = r#"
assistant: thinks Hm.
assistant: Let me see.
assistant: call weather {"city":"Oslo"}
assistant: call now
"#;
    assert_eq!(said(&answer), expected.trim_start());
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let usage = answer.usage;
    assert_eq!((usage.input, usage.output, usage.reasoning), (Some(123), Some(40), Some(7)));
    assert_eq!((usage.cache_write, usage.cache_read), (Some(20), Some(3)));

    for (body, stop) in [
        (anthropic::body().text("Hi"), StopReason::Complete),
        (
            anthropic::body().call_text("t", "w", r#"{"ci"#).stop("max_tokens"),
            StopReason::Truncated,
        ),
        (anthropic::body().text("I").refusal("cyber", "No."), StopReason::Refused),
        (anthropic::body().stop("pause_turn"), StopReason::Paused),
    ] {
        assert_eq!(body.read().unwrap().stop, stop);
    }
}

#[test]
fn anthropic_fails_where_it_was_told_to() {
    let said = || anthropic::body().without_ping().text("Let me see.");
    let err = said().error("overloaded_error", "Overloaded").read().unwrap_err();
    assert_eq!((err.kind(), err.code()), (ErrorKind::Api, Some("overloaded_error")));
    for (body, last) in
        [(said().cut(), "content_block_stop"), (said().cut_in_block(), "text_delta")]
    {
        assert!(names(&body.events()).trim_end_matches(" ..").ends_with(last));
        assert_eq!(body.read().unwrap_err().kind(), ErrorKind::CutOff);
    }
}

#[test]
fn responses_says_it_in_the_order_of_the_service() {
    let body = responses::body()
        .reasoning(&["First.", "Second."], "gAAAAB")
        .reasoning(&[], "gAAAAC")
        .text("Let me see.")
        .call("call_1", "weather", json!({"city": "Oslo"}));
    let expected = "
response.created
response.in_progress
response.output_item.added reasoning
response.reasoning_summary_part.added
response.reasoning_summary_text.delta ..
response.reasoning_summary_text.done
response.reasoning_summary_part.done
response.reasoning_summary_part.added
response.reasoning_summary_text.delta ..
response.reasoning_summary_text.done
response.reasoning_summary_part.done
response.output_item.done reasoning
response.output_item.added reasoning
response.output_item.done reasoning
response.output_item.added message
response.content_part.added
response.output_text.delta ..
response.output_text.done
response.content_part.done
response.output_item.done message
response.output_item.added function_call
response.function_call_arguments.delta ..
response.function_call_arguments.done
response.output_item.done function_call
response.completed";
    let events = body.events();
    assert_eq!(names(&events), expected.trim());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let done = |id: &str| {
        let is = |event: &&Value| {
            event["type"] == "response.output_item.done" && event["item"]["id"] == id
        };
        events.iter().find(is).unwrap()["item"].clone()
    };
    assert_eq!(done("rs_0")["encrypted_content"], "gAAAAB");
    assert_eq!(done("fc_3")["arguments"], r#"{"city":"Oslo"}"#);
    assert_eq!(done("fc_3")["call_id"], "call_1");
    assert_eq!(done("msg_2")["content"][0]["text"], "Let me see.");
    assert_eq!(events.last().unwrap()["response"]["output"][3], done("fc_3"));
    assert_eq!(events.last().unwrap()["response"]["usage"]["total_tokens"], 40);
}

#[test]
fn responses_ends_as_it_was_told_to() {
    let said = || responses::body().text("Hi").call_text("call_1", "weather", r#"{"ci"#);
    let last = |body: responses::ResponsesBody| body.events().pop().unwrap();

    let event = last(said().incomplete("max_output_tokens"));
    assert_eq!(event["type"], "response.incomplete");
    assert_eq!(event["response"]["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(event["response"]["output"][0]["status"], "completed");
    assert_eq!(event["response"]["output"][1]["status"], "incomplete");

    let event = last(said().failed("server_error", "Sorry"));
    assert_eq!(event["response"]["error"], json!({"code": "server_error", "message": "Sorry"}));

    let ends = names(&said().error("server_error", "Sorry").events());
    assert!(ends.ends_with("\nerror\nresponse.failed"), "{ends}");
    let ends = names(&said().cut().events());
    assert!(ends.ends_with("response.output_item.done function_call"), "{ends}");
    let ends = names(&said().cut_in_item().events());
    assert!(ends.ends_with("response.function_call_arguments.delta .."), "{ends}");
    let ends = names(&responses::body().refusal("I will not.").events());
    assert!(ends.contains("response.refusal.delta ..\nresponse.refusal.done\n"), "{ends}");
}

#[test]
fn responses_is_read_as_it_was_said() {
    let body = responses::body()
        .reasoning(&["First.", "Second."], "gAAAAB")
        .text("Let me see.")
        .call("call_1", "weather", json!({"city": "Oslo"}))
        .call("call_2", "now", json!({}))
        .usage(100, 40)
        .cached(60)
        .reasoning_tokens(7);
    let answer = body.read().unwrap();
    let expected = r#"
assistant: thinks First.

Second.
assistant: Let me see.
assistant: call weather {"city":"Oslo"}
assistant: call now {}
"#;
    assert_eq!(said(&answer), expected.trim_start());
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let usage = answer.usage;
    assert_eq!((usage.input, usage.cache_read), (Some(100), Some(60)));
    assert_eq!((usage.output, usage.reasoning), (Some(40), Some(7)));
    let Some(Block::Reasoning(thought)) = answer.message.unwrap().blocks().first().cloned() else {
        panic!("no thinking");
    };
    assert!(thought.vendor().unwrap().json().contains(r#""encrypted_content":"gAAAAB""#));

    let body = responses::body().text("Hi").incomplete("max_output_tokens");
    assert_eq!(body.read().unwrap().stop, StopReason::Truncated);
    for body in [
        responses::body().failed("server_error", "x"),
        responses::body().error("server_error", "x"),
    ] {
        let err = body.text("Hi").read().unwrap_err();
        assert_eq!((err.kind(), err.code()), (ErrorKind::Api, Some("server_error")));
    }
    for body in [responses::body().text("Hi").cut(), responses::body().text("Hi").cut_in_item()] {
        assert_eq!(body.read().unwrap_err().kind(), ErrorKind::CutOff);
    }
}

/// Each chunk's delta and finish reason, or its usage.
fn deltas(body: &chat::ChatBody) -> Vec<String> {
    let told = |chunk: &Value| match chunk["choices"].get(0) {
        Some(choice) if choice["finish_reason"].is_null() => choice["delta"].to_string(),
        Some(choice) => choice["finish_reason"].to_string(),
        None if chunk.get("error").is_some() => chunk.to_string(),
        None => chunk["usage"]["total_tokens"].to_string(),
    };
    body.events().iter().map(told).collect()
}

#[test]
fn chat_says_it_in_the_order_of_the_service() {
    let body = chat::body()
        .reasoning("reasoning_content", "Hm")
        .text("Hi")
        .call("call_1", "now", json!({}))
        .call("call_2", "now", json!({}));
    let expected = [
        r#"{"role":"assistant","content":null,"refusal":null}"#,
        r#"{"reasoning_content":"H"}"#,
        r#"{"reasoning_content":"m"}"#,
        r#"{"content":"H"}"#,
        r#"{"content":"i"}"#,
        r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"now","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"now","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#,
        r#""tool_calls""#,
        "40",
    ];
    assert_eq!(deltas(&body), expected);
    assert!(body.to_string().ends_with("}\n\ndata: [DONE]\n\n"));
}

#[test]
fn chat_ends_as_it_was_told_to() {
    let said = || chat::body().text("Hi");
    assert_eq!(deltas(&said())[3..], [r#""stop""#, "40"]);
    assert_eq!(deltas(&said().stop("length"))[3..], [r#""length""#, "40"]);
    let unasked = said().without_usage();
    assert_eq!(deltas(&unasked)[3..], [r#""stop""#]);
    assert!(unasked.events().iter().all(|chunk| chunk.get("usage").is_none()));
    assert!(said().without_done().to_string().ends_with("}\n\n"));

    let cut = said().cut();
    assert_eq!((cut.events().len(), cut.to_string().contains("[DONE]")), (3, false));
    let failed = said().error("server_error", "Sorry");
    assert!(deltas(&failed)[3].starts_with(r#"{"error":{"message":"Sorry""#));
    assert!(!failed.to_string().contains("[DONE]"));
}

#[test]
fn chat_is_read_as_it_was_said() {
    let body = chat::body()
        .reasoning("reasoning_content", "Hm.")
        .text("Let me see.")
        .call("call_1", "weather", json!({"city": "Oslo"}))
        .call("call_2", "now", json!({}))
        .usage(100, 40)
        .cached(60)
        .reasoning_tokens(7);
    let answer = body.read().unwrap();
    let expected = r#"
assistant: thinks Hm.
assistant: Let me see.
assistant: call weather {"city":"Oslo"}
assistant: call now {}
"#;
    assert_eq!(said(&answer), expected.trim_start());
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let usage = answer.usage;
    assert_eq!((usage.input, usage.cache_read), (Some(100), Some(60)));
    assert_eq!((usage.output, usage.reasoning), (Some(40), Some(7)));

    let body = || chat::body().text("Hi");
    assert_eq!(body().stop("length").read().unwrap().stop, StopReason::Truncated);
    assert_eq!(body().without_done().read().unwrap().stop, StopReason::Complete);
    assert_eq!(body().without_usage().read().unwrap().usage, Usage::default());
    assert_eq!(body().cut().read().unwrap_err().kind(), ErrorKind::CutOff);
    let err = body().error("server_error", "Sorry").read().unwrap_err();
    assert_eq!((err.kind(), err.code()), (ErrorKind::Api, Some("server_error")));
}
