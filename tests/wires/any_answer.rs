//! Whatever a server answers, and wherever the answer is cut, the conversation can be sent: the
//! vendor accepts each later request.
use crate::decoded::{named, unnamed};
use crate::probe::{Log, READ, WRITE, Work, tool};
use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, OpenAIProvider, Permissions, Provider,
    policy::RetryPolicy,
    testing::{Answer, LoopbackServer},
};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

/// A text that stands where another one is expected.
fn hostile(r: &mut impl FnMut(usize) -> usize) -> String {
    let all = [
        "",
        " ",
        "\u{0}",
        "{}",
        "{\"a\":1}",
        "{\"a\":1,\"a\":2}",
        "[1]",
        "null",
        "\u{feff}{}",
        "{\"a\":\"\\ud83d\"}",
        "{\"a\":1e999}",
        "look",
        "pay",
        "a",
        "b",
        "a b",
        "é",
        "tool_use",
        "server_tool_use",
        "thinking",
        "function_call",
        "message",
        "reasoning",
        "image_generation_call",
        "custom_tool_call",
        "redacted_thinking",
        "\n",
        "<think>",
        "data:image/png;base64,!!",
        "end_turn",
        "stop",
        "tool_calls",
        "length",
        "max_tokens",
        "refusal",
        "content_filter",
        "incomplete",
        "completed",
        "web_search_tool_result",
        "mcp_tool_use",
        "compaction",
    ];
    all[r(all.len())].to_owned()
}
/// A value of any type.
fn value(r: &mut impl FnMut(usize) -> usize) -> Value {
    match r(10) {
        0 => json!(null),
        1 => json!({}),
        2 => json!([]),
        3 => json!(7),
        4 => json!(-1),
        5 => json!(true),
        6 => json!({"type": hostile(r), "text": hostile(r), "id": hostile(r)}),
        7 => json!([{"type": hostile(r), "text": hostile(r)}]),
        _ => json!(hostile(r)),
    }
}
/// Replaces or removes members here and there: about one of `p`.
fn mutate(v: &mut Value, r: &mut impl FnMut(usize) -> usize, p: usize) {
    if r(p) == 0 {
        *v = value(r);
        return;
    }
    match v {
        Value::Object(m) => {
            let keys: Vec<String> = m.keys().cloned().collect();
            for k in keys {
                if k == "type" && r(6) != 0 {
                    continue;
                }
                if r(p * 2) == 0 {
                    m.shift_remove(&k);
                } else {
                    mutate(&mut m[&k], r, p);
                }
            }
        }
        Value::Array(a) => a.iter_mut().for_each(|v| mutate(v, r, p)),
        _ => {}
    }
}
/// The events of an answer with thinking, words, what the vendor runs itself, and two calls.
fn events(wire: &str, r: &mut impl FnMut(usize) -> usize) -> Vec<Value> {
    let args =
        ["{}", "{\"a\":1}", "{\"a\":\"\\ud83d\"}", "{\"a\":1,\"a\":2}", "{\"a\":", "[1]", ""][r(7)];
    let name = ["look", "pay", "nope", "a b"][r(4)];
    let id = ["a", "b", "é", "", "toolu_1"][r(5)];
    match wire {
        "anthropic" => {
            let start = |i: usize, b: Value| json!({"type": "content_block_start", "index": i, "content_block": b});
            let d =
                |i: usize, b: Value| json!({"type": "content_block_delta", "index": i, "delta": b});
            let stop = |i: usize| json!({"type": "content_block_stop", "index": i});
            vec![
                json!({"type": "message_start", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 1}}}),
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                d(0, json!({"type": "thinking_delta", "thinking": "hm"})),
                d(0, json!({"type": "signature_delta", "signature": "sig"})),
                stop(0),
                start(1, json!({"type": "text", "text": ""})),
                d(1, json!({"type": "text_delta", "text": "hi"})),
                stop(1),
                start(
                    2,
                    json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
                ),
                stop(2),
                start(
                    3,
                    json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
                ),
                stop(3),
                start(4, json!({"type": "tool_use", "id": id, "name": name, "input": {}})),
                d(4, json!({"type": "input_json_delta", "partial_json": args})),
                stop(4),
                start(5, json!({"type": "tool_use", "id": "c", "name": "look", "input": {}})),
                stop(5),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
                json!({"type": "message_stop"}),
            ]
        }
        "responses" => {
            let item = |i: usize, k: &str, b: Value| json!({"type": format!("response.output_item.{k}"), "output_index": i, "item": b});
            let call = |a: &str| json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": name, "arguments": a});
            vec![
                json!({"type": "response.created", "response": {"id": "r"}}),
                item(0, "added", json!({"type": "reasoning", "id": "rs_1", "summary": []})),
                item(
                    0,
                    "done",
                    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}),
                ),
                item(1, "added", json!({"type": "message", "id": "msg_1", "content": []})),
                json!({"type": "response.output_text.delta", "output_index": 1, "delta": "hi"}),
                item(
                    1,
                    "done",
                    json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "hi"}]}),
                ),
                item(2, "added", call("")),
                json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": args}),
                json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": args}),
                item(2, "done", call(args)),
                item(
                    3,
                    "done",
                    json!({"type": "function_call", "id": "fc_2", "call_id": "c", "name": "look", "arguments": "{}"}),
                ),
                json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 1, "output_tokens": 2}}}),
            ]
        }
        _ => {
            let c = |d: Value, f: Value| json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": f}]});
            vec![
                c(json!({"role": "assistant", "reasoning_content": "hm"}), Value::Null),
                c(json!({"content": "hi"}), Value::Null),
                c(
                    json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": name, "arguments": ""}, "extra_content": {"google": {"thought_signature": "s"}}}]}),
                    Value::Null,
                ),
                c(
                    json!({"tool_calls": [{"index": 0, "function": {"arguments": args}}]}),
                    Value::Null,
                ),
                c(
                    json!({"tool_calls": [{"index": 1, "id": "c", "function": {"name": "look", "arguments": "{}"}}]}),
                    Value::Null,
                ),
                c(json!({}), json!("tool_calls")),
            ]
        }
    }
}
fn is_object(text: &str) -> bool {
    harness::message::Arguments::decode(text).is_ok() && text.starts_with('{')
}
fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}
/// What the vendor would refuse in this request.
fn check(wire: &str, body: &Value) -> Result<(), String> {
    let f = |ok: bool, what: String| if ok { Ok(()) } else { Err(what) };
    match wire {
        "chat" => {
            let list = body["messages"].as_array().unwrap();
            let mut open: Vec<String> = vec![];
            for m in list {
                match m["role"].as_str().unwrap() {
                    "tool" => {
                        let id = m["tool_call_id"].as_str().unwrap().to_owned();
                        let at = open.iter().position(|o| *o == id);
                        f(at.is_some(), format!("result without call {id}"))?;
                        open.remove(at.unwrap());
                        f(
                            m["content"].as_str().is_some_and(|t| !t.is_empty()),
                            format!("result content {m}"),
                        )?;
                    }
                    "assistant" => {
                        f(open.is_empty(), format!("open {open:?}"))?;
                        f(
                            m.get("content")
                                .is_some_and(|c| c.as_str().is_some_and(|t| !t.trim().is_empty()))
                                || m["tool_calls"].is_array(),
                            format!("empty assistant {m}"),
                        )?;
                        for c in m["tool_calls"].as_array().into_iter().flatten() {
                            let id = c["id"].as_str().unwrap();
                            f(is_id(id), format!("id {id}"))?;
                            f(!open.contains(&id.to_owned()), format!("twice {id}"))?;
                            open.push(id.to_owned());
                            f(
                                is_object(c["function"]["arguments"].as_str().unwrap()),
                                format!("args {c}"),
                            )?;
                            f(is_id(c["function"]["name"].as_str().unwrap()), format!("name {c}"))?;
                        }
                    }
                    _ => {
                        f(open.is_empty(), format!("open {open:?} before user"))?;
                        f(
                            m["content"].as_str().is_none_or(|t| !t.trim().is_empty()),
                            "empty user".into(),
                        )?;
                    }
                }
            }
            f(open.is_empty(), format!("open at end {open:?}"))
        }
        "anthropic" => {
            let list = body["messages"].as_array().unwrap();
            let mut open: HashSet<String> = HashSet::new();
            let mut server: HashSet<String> = HashSet::new();
            for (at, m) in list.iter().enumerate() {
                let content = m["content"].as_array().unwrap();
                f(!content.is_empty(), "empty content".into())?;
                if m["role"] == "assistant" {
                    f(at > 0, "begins with assistant".into())?;
                    f(open.is_empty(), format!("open {open:?}"))?;
                    let mut calls = false;
                    for b in content {
                        match b["type"].as_str().unwrap_or("?") {
                            "tool_use" => {
                                calls = true;
                                let id = b["id"].as_str().unwrap_or_default();
                                f(is_id(id), format!("id {b}"))?;
                                f(open.insert(id.to_owned()), format!("twice {id}"))?;
                                f(b["input"].is_object(), format!("input {b}"))?;
                                f(
                                    is_id(b["name"].as_str().unwrap_or_default()),
                                    format!("name {b}"),
                                )?;
                            }
                            "text" => {
                                f(
                                    !b["text"].as_str().unwrap_or_default().trim().is_empty(),
                                    format!("blank {b}"),
                                )?;
                                f(!calls, format!("text after call {m}"))?;
                            }
                            "thinking" => {
                                f(
                                    b["signature"].as_str().is_some_and(|s| !s.is_empty()),
                                    format!("unsigned {b}"),
                                )?;
                            }
                            "server_tool_use" => {
                                if let Some(id) = b["id"].as_str() {
                                    server.insert(id.to_owned());
                                }
                            }
                            "web_search_tool_result" => {
                                let id = b["tool_use_id"].as_str().unwrap_or_default();
                                server.remove(id);
                            }
                            _ => {}
                        }
                    }
                    f(
                        server.is_empty() || calls || at + 1 == list.len(),
                        format!("server use without result {server:?}"),
                    )?;
                    server.clear();
                } else {
                    for b in content {
                        if b["type"] == "tool_result" {
                            let id = b["tool_use_id"].as_str().unwrap();
                            f(open.remove(id), format!("result without call {id}"))?;
                        } else {
                            f(open.is_empty(), format!("words before results {open:?}"))?;
                        }
                    }
                    f(open.is_empty(), format!("open {open:?} after user"))?;
                }
            }
            f(open.is_empty(), format!("open at end {open:?}"))
        }
        _ => {
            let mut open: HashSet<String> = HashSet::new();

            for i in body["input"].as_array().unwrap() {
                match i["type"].as_str().unwrap_or("?") {
                    "function_call" => {
                        let id = i["call_id"].as_str().unwrap();
                        f(is_id(id), format!("id {i}"))?;
                        f(open.insert(id.to_owned()), format!("twice {id}"))?;
                        f(is_object(i["arguments"].as_str().unwrap()), format!("args {i}"))?;
                        f(is_id(i["name"].as_str().unwrap()), format!("name {i}"))?;
                    }
                    "custom_tool_call" => {
                        open.insert(i["call_id"].as_str().unwrap().to_owned());
                        f(i["input"].is_string(), format!("custom {i}"))?;
                    }
                    "function_call_output" | "custom_tool_call_output" => {
                        let id = i["call_id"].as_str().unwrap();
                        f(open.remove(id), format!("output without call {id}"))?;
                    }
                    "reasoning" => {
                        f(
                            i["encrypted_content"].as_str().is_some_and(|s| !s.is_empty()),
                            format!("reasoning {i}"),
                        )?;
                        f(i["summary"].is_array(), format!("reasoning summary {i}"))?;
                        f(i.get("id").is_none_or(Value::is_string), format!("reasoning id {i}"))?;
                    }
                    _ => {}
                }
            }
            f(open.is_empty(), format!("open at end {open:?}"))
        }
    }
}
#[tokio::test]
async fn any_answer_leaves_a_conversation_that_can_be_sent() {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let mut sends = 0;
    let mut all: Vec<String> = vec![];
    let rounds = crate::times(30);
    for round in 0..rounds {
        let wire = ["anthropic", "responses", "chat"][round % 3];
        let mut r = |n: usize| random.next_u32() as usize % n;
        let mut bodies: Vec<String> = vec![];
        for _ in 0..8 {
            let mut ev = events(wire, &mut r);
            let p = [6usize, 12, 40, 200][r(4)];
            for e in &mut ev {
                if r(3) == 0 {
                    mutate(e, &mut r, p);
                }
            }
            for _ in 0..r(4) {
                let n = ev.len();
                match r(4) {
                    0 => {
                        ev.remove(r(n));
                    }
                    1 => {
                        let e = ev[r(n)].clone();
                        ev.insert(r(n), e);
                    }
                    2 => {
                        let (a, b) = (r(n), r(n));
                        ev.swap(a, b);
                    }
                    _ => {}
                }
            }
            let mut body = if wire == "chat" || ev.iter().any(|e| !e["type"].is_string()) {
                unnamed(&ev)
            } else {
                named(&ev)
            };
            if wire == "chat" {
                body += "data: [DONE]\n\n";
            }
            if r(6) == 0 {
                let n = r(body.len());
                let n = (0..=n).rev().find(|n| body.is_char_boundary(*n)).unwrap();
                body.truncate(n);
            }
            bodies.push(body);
        }
        let faults = Arc::new(Mutex::new(vec![]));
        let count = Arc::new(Mutex::new(0usize));
        let (f2, c2, b2) = (faults.clone(), count.clone(), bodies.clone());
        let server = LoopbackServer::answering(move |req| {
            let mut c = c2.lock().unwrap();
            *c += 1;
            let json: Value = serde_json::from_slice(req.body()).unwrap_or(Value::Null);
            if let Err(e) =
                if json.is_null() { Err("not JSON".to_owned()) } else { check(wire, &json) }
            {
                f2.lock().unwrap().push(e);
            }
            Answer::sse(b2[*c % b2.len()].clone())
        })
        .await
        .unwrap();
        let log = Log::default();
        let tools =
            [tool("pay", WRITE, &log, Work::Steps(0)), tool("look", READ, &log, Work::Steps(0))];
        let none = RetryPolicy::none();
        let p: Arc<dyn Provider> = match wire {
            "anthropic" => Arc::new(
                AnthropicProvider::builder()
                    .api_key("k")
                    .base_url(server.url())
                    .model("m")
                    .build()
                    .unwrap()
                    .with_retry(none),
            ),
            "responses" => Arc::new(
                OpenAIProvider::builder()
                    .api_key("k")
                    .base_url(server.url())
                    .model("m")
                    .build()
                    .unwrap()
                    .with_retry(none),
            ),
            _ => Arc::new(
                ChatCompletionsProvider::builder()
                    .base_url(server.url())
                    .model("m")
                    .build()
                    .unwrap()
                    .with_retry(none),
            ),
        };
        let agent =
            Agent::builder(p).tools(tools).permissions(Permissions::allow_all()).build().unwrap();
        let mut chat = agent.chat();
        for n in 0..4 {
            let _ = chat.send(format!("Go {n}.")).await;
            let _ = chat.resume().await;
        }
        sends += *count.lock().unwrap();
        for e in faults.lock().unwrap().iter().take(1) {
            all.push(format!("{wire} {round}: {e}"));
        }
    }
    assert!(sends > 11 * rounds && all.is_empty(), "{sends} requests: {all:#?}");
}
