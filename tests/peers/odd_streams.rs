//! Streams that repeat, lose, reorder or add something. A call runs once and with all of its arguments, or the model hears
//! that it did not run.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, SideEffect, SideEffects, Stopped, Tool, Usage,
    agent::Reply,
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{list, provider};

const OSLO: &str = r#"{"city":"Oslo"}"#;
const ROME: &str = r#"{"city":"Rome"}"#;
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

/// What became of a run whose first answer is a stream.
struct Ran {
    /// The arguments of the calls that ran.
    calls: Vec<String>,
    reply: Result<Reply, Stopped>,
    /// The request after the calls.
    second: Option<Value>,
}

async fn ran(wire: &str, first: Answer, effects: SideEffects) -> Ran {
    let second = match wire {
        "anthropic" => anthropic::body().text("Booked.").answer(),
        "responses" => responses::body().text("Booked.").answer(),
        _ => chat::body().text("Booked.").answer(),
    };
    let server = LoopbackServer::start([first, second]).await.expect("a server");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let book = Tool::new("book", "Books.", schema, effects, move |_, arguments| {
        seen.lock().expect("unpoisoned").push(Value::Object(arguments).to_string());
        Box::pin(async { Ok("Done.".into()) })
    });
    let agent = Agent::builder(provider(wire, &server)).tools([book]).build().expect("an agent");
    let reply = agent.run("Book.").await;
    let calls = calls.lock().expect("unpoisoned").clone();
    Ran { calls, reply, second: server.requests().get(1).map(|request| request.json()) }
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// An answer of Responses with these items, whose end repeats these.
fn items(events: &[Value], output: &Value) -> Answer {
    let created = json!({"type": "response.created", "response": {"id": "r", "output": []}});
    let response = json!({"id": "r", "status": "completed", "output": output});
    let end = json!({"type": "response.completed", "response": response});
    Answer::sse(stream(&[&[created], events, &[end]].concat()))
}

fn item(kind: &str, at: usize, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": at, "item": item})
}

fn function(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": "book", "arguments": arguments})
}

fn pieces(at: usize, arguments: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": at, "item_id": "f",
        "delta": arguments})
}

fn chunk(delta: &Value, reason: Value) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

/// An answer of Chat Completions with these lists of pieces of calls.
fn lists(lists: &[Value]) -> Answer {
    let chunks = lists.iter().map(|list| chunk(&json!({ "tool_calls": list }), Value::Null));
    let end = chunk(&json!({}), json!("tool_calls"));
    Answer::sse(stream(&chunks.chain([end]).collect::<Vec<_>>()) + "data: [DONE]\n\n")
}

fn piece(id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// An answer of Messages with these events between its beginning and its end.
fn blocks(start: &Value, events: &[Value], reason: &str) -> Answer {
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    Answer::sse(stream(&[std::slice::from_ref(start), events, &end].concat()))
}

fn begun() -> Value {
    json!({"type": "message_start", "message": {"id": "a", "usage": {"input_tokens": 9}}})
}

fn at(index: usize, kind: &str, member: &str, value: &Value) -> Value {
    let mut event = json!({"type": format!("content_block_{kind}"), "index": index});
    event[member] = value.clone();
    event
}

fn used(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "book", "input": {}})
}

fn input(json: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": json})
}

fn results(body: &Value) -> usize {
    let is = |it: &Value| it["role"] == "tool" || it["type"] == "function_call_output";
    list(body).iter().filter(|it| is(it)).count()
}

/// earendil-works/pi#9897, openai/openai-python#3201, NousResearch/hermes-agent#35718.
#[tokio::test]
async fn a_call_runs_once_with_all_of_its_arguments_or_the_model_hears_that_it_did_not() {
    let begins = || item("added", 0, &function("f", "c", ""));
    let (id, name) = (Some("c"), Some("book"));
    let table = [
        // The end has no items, and the call has none either.
        ("responses", items(&[begins(), pieces(0, r#"{"city":"#)], &json!([])), vec![]),
        ("responses", items(&[begins(), pieces(0, OSLO)], &json!([])), vec![OSLO]),
        // Two pieces of one index in one chunk.
        ("chat", lists(&[json!([piece(id, name, ""), piece(None, None, OSLO)])]), vec![OSLO]),
        (
            "chat",
            lists(&[
                json!([piece(id, name, r#"{"ci"#), piece(None, None, r#"ty":"#)]),
                json!([piece(None, None, r#""Os"#), piece(None, None, r#"lo"}"#)]),
            ]),
            vec![OSLO],
        ),
        // Each piece repeats all that came before it.
        (
            "chat",
            lists(&[
                json!([piece(id, name, r#"{"ci"#)]),
                json!([piece(id, None, r#"{"city":"O"#)]),
                json!([piece(id, None, OSLO)]),
            ]),
            vec![],
        ),
        (
            "chat",
            lists(&[json!([piece(id, name, OSLO)]), json!([piece(id, name, OSLO)])]),
            vec![OSLO],
        ),
    ];
    for (number, (wire, first, expected)) in table.into_iter().enumerate() {
        let ran = ran(wire, first, WRITE).await;
        assert_eq!(ran.calls, expected, "{number}");
        let reply = ran.reply.unwrap_or_else(|err| panic!("{number}: {err}"));
        assert_eq!(reply.text(), "Booked.", "{number}");
        assert_eq!(results(&ran.second.expect("a second request")), 1, "{number}");
    }
}

/// Wei-Shaw/sub2api#6118.
#[tokio::test]
async fn an_end_that_tells_the_items_anew_adds_nothing_and_loses_nothing() {
    let thought =
        json!({"type": "reasoning", "id": "t", "summary": [], "encrypted_content": "own"});
    let words = |id: &str| {
        json!({"type": "message", "id": id, "role": "assistant",
            "content": [{"type": "output_text", "text": "To Oslo.", "annotations": []}]})
    };
    let call = |id: &str, call_id: &str| function(id, call_id, OSLO);
    let said = [thought.clone(), words("m"), call("f", "c")];
    let events: Vec<Value> = said.iter().enumerate().map(|(at, it)| item("done", at, it)).collect();
    for output in [
        json!([]),
        json!(said),
        json!([words("m2"), call("f2", "c")]),
        json!([call("f2", "c"), words("m2")]),
        json!([call("f2", "c2"), thought, words("m2")]),
        json!([words("m2"), call("f2", "c2")]),
    ] {
        let ran = ran("responses", items(&events, &output), WRITE).await;
        assert_eq!(ran.calls, [OSLO], "{output}");
        assert_eq!(ran.reply.expect("an answer").text(), "Booked.", "{output}");
        let second = ran.second.expect("a second request").to_string();
        for (what, times) in [("To Oslo.", 1), (r#""own""#, 1), ("\"function_call\"", 1)] {
            assert_eq!(second.matches(what).count(), times, "{what}: {output}: {second}");
        }
    }
}

/// macanderson/stella#5496, macanderson/stella#5684.
#[tokio::test]
async fn a_call_without_an_id_runs_and_one_without_a_name_is_told() {
    let without = |member: &str| {
        let mut call = function("f", "c", OSLO);
        let members = call.as_object_mut().expect("an object");
        for name in member.split(' ') {
            members.remove(name);
        }
        items(&[item("done", 0, &call)], &json!([]))
    };
    let table = [
        ("responses", without("id"), 1),
        ("responses", without("call_id"), 1),
        ("responses", without("id call_id"), 1),
        ("responses", without("name"), 0),
        ("chat", lists(&[json!([piece(None, Some("book"), OSLO)])]), 1),
        ("chat", lists(&[json!([piece(Some(""), Some("book"), OSLO)])]), 1),
        ("chat", lists(&[json!([piece(Some("c"), None, OSLO)])]), 0),
        ("chat", lists(&[json!([piece(None, Some(""), OSLO)])]), 0),
    ];
    for (number, (wire, first, calls)) in table.into_iter().enumerate() {
        let ran = ran(wire, first, WRITE).await;
        assert_eq!(ran.calls.len(), calls, "{number}");
        let reply = ran.reply.unwrap_or_else(|err| panic!("{number}: {err}"));
        assert_eq!(reply.text(), "Booked.", "{number}");
        let second = ran.second.expect("a second request");
        assert_eq!(results(&second), 1, "{number}: {second}");
        let id = reply.transcript().messages()[1].calls().next().expect("a call").id();
        assert!(
            !id.is_empty() && second.to_string().matches(id).count() >= 2,
            "{number}: {second}"
        );
    }
}

/// headroomlabs-ai/headroom#2890, Wei-Shaw/sub2api#4302, praxis-proxy/ai#266, can1357/oh-my-pi#1880.
#[tokio::test]
async fn arguments_that_come_after_the_next_call_has_begun_belong_to_their_own() {
    let begin = |index, id| at(index, "start", "content_block", &used(id));
    let delta = |index, json: &str| at(index, "delta", "delta", &input(json));
    let stop = |index| json!({"type": "content_block_stop", "index": index});
    let (first, rest) = OSLO.split_at(5);
    for events in [
        vec![begin(0, "a"), begin(1, "b"), delta(0, OSLO), delta(1, ROME), stop(0), stop(1)],
        vec![begin(0, "a"), stop(0), begin(1, "b"), delta(0, OSLO), delta(1, ROME), stop(1)],
        vec![
            begin(0, "a"),
            delta(0, first),
            begin(1, "b"),
            delta(1, ROME),
            stop(1),
            delta(0, rest),
        ],
        vec![begin(0, "a"), begin(1, "b"), stop(0), delta(1, ROME), stop(1), delta(0, OSLO)],
    ] {
        for effects in [WRITE, READ] {
            let mut ran = ran("anthropic", blocks(&begun(), &events, "tool_use"), effects).await;
            ran.calls.sort();
            assert_eq!(ran.calls, [OSLO, ROME], "{events:?}");
            assert_eq!(ran.reply.expect("an answer").text(), "Booked.", "{events:?}");
        }
    }
}

/// xberg-io/liter-llm#155, router-for-me/CLIProxyAPI#3798, microsoft/autogen#6465, SaladDay/cc-switch-cli#320.
#[tokio::test]
async fn events_beside_an_answer_do_not_end_it() {
    let with = |extra: &Value, first: bool| {
        let said = chunk(&json!({"content": "Hi."}), Value::Null);
        let end = chunk(&json!({}), json!("stop"));
        let events = match first {
            true => [extra.clone(), said, end],
            false => [said, end, extra.clone()],
        };
        Answer::sse(stream(&events) + "data: [DONE]\n\n")
    };
    let text = json!({"type": "text", "text": ""});
    let hi = json!({"type": "text_delta", "text": "Hi."});
    let started = |start: Value| {
        let events = [
            at(0, "start", "content_block", &text),
            at(0, "delta", "delta", &hi),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        blocks(&start, &events, "end_turn")
    };
    let limits = json!({"type": "codex.rate_limits", "plan_type": "plus",
        "rate_limits": {"allowed": false, "limit_reached": true, "primary": {"used_percent": 100}}});
    let message = json!({"type": "message", "id": "m", "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]});
    let table = [
        ("chat", with(&json!({"choices": [], "cost": "0.0012"}), false)),
        ("chat", with(&json!({"type": "cost", "cost": {"total": 0.0012}}), false)),
        ("chat", with(&json!({"choices": [], "prompt_filter_results": [{}]}), true)),
        ("chat", with(&json!({"choices": [{"index": 0, "content_filter_results": {}}]}), true)),
        ("responses", items(&[limits.clone(), item("done", 0, &message)], &json!([]))),
        ("responses", items(&[item("done", 0, &message), limits], &json!([]))),
        (
            "anthropic",
            started(json!({"type": "message_start", "message": {"id": "a", "role": "assistant"}})),
        ),
        ("anthropic", started(json!({"type": "message_start", "message": {"content": null}}))),
        ("anthropic", started(json!({"type": "message_start", "message": {}}))),
    ];
    for (number, (wire, first)) in table.into_iter().enumerate() {
        let reply = ran(wire, first, WRITE).await.reply;
        let reply = reply.unwrap_or_else(|err| panic!("{number}: {err}"));
        assert_eq!(reply.text(), "Hi.", "{number}");
    }
}

/// openai/codex#43140.
#[tokio::test(start_paused = true)]
async fn an_end_of_responses_is_one_although_the_connection_stays_open() {
    let error = json!({"code": "invalid_prompt", "message": "Not that."});
    let reason = json!({"reason": "max_output_tokens"});
    for (status, more, said) in [
        ("failed", json!({ "error": error }), "Not that."),
        ("incomplete", json!({ "incomplete_details": reason }), "limit"),
        ("completed", json!({}), ""),
    ] {
        let mut response = json!({"id": "r", "status": status, "output": []});
        response.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let text = stream(&[json!({"type": format!("response.{status}"), "response": response})]);
        let (end, begun) = (text.len(), Instant::now());
        let ran = ran("responses", Answer::sse(text).stall_at(end), WRITE).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{status}: {:?}", begun.elapsed());
        match ran.reply {
            Ok(reply) => assert_eq!((reply.text(), status), ("", "completed")),
            Err(stopped) => assert!(stopped.to_string().contains(said), "{status}: {stopped}"),
        }
    }
}

/// open-webui/open-webui#28618, SamSaffron/term-llm#98, Aider-AI/aider#5516.
#[tokio::test]
async fn tokens_from_the_cache_are_counted_once() {
    let counted = |usage: Value, more: Value| {
        let mut last = json!({"id": "c", "choices": [], "usage": usage});
        last.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let said = chunk(&json!({"content": "Hi."}), json!("stop"));
        Answer::sse(stream(&[said, last]) + "data: [DONE]\n\n")
    };
    let both = |more: Value| {
        let mut usage = json!({"prompt_tokens": 1_000, "completion_tokens": 5});
        usage.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        usage
    };
    for (wire, first) in [
        (
            "chat",
            counted(both(json!({"prompt_tokens_details": {"cached_tokens": 900}})), json!({})),
        ),
        (
            "chat",
            counted(
                both(json!({"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100})),
                json!({}),
            ),
        ),
        (
            "chat",
            counted(
                both(json!({"prompt_tokens_details": {"cached_tokens": 900}})),
                json!({"timings": {"cache_n": 900, "prompt_n": 100, "predicted_n": 5}}),
            ),
        ),
        ("responses", {
            let usage = json!({"input_tokens": 1_000, "input_tokens_details": {"cached_tokens": 900}, "output_tokens": 5});
            let response = json!({"id": "r", "status": "completed", "output": [], "usage": usage});
            Answer::sse(stream(&[json!({"type": "response.completed", "response": response})]))
        }),
    ] {
        let usage: Usage = ran(wire, first, WRITE).await.reply.expect("an answer").usage();
        assert_eq!((usage.input, usage.cache_read), (Some(1_000), Some(900)), "{wire}");
        assert_eq!(usage.output, Some(5), "{wire}");
    }
}

/// openclaw/openclaw#91604, OpenHands/OpenHands#8685.
#[tokio::test]
async fn an_answer_of_thinking_alone_is_not_sent_back_as_an_empty_message() {
    let thinks = chunk(&json!({"reasoning_content": "Hm."}), Value::Null);
    let first = stream(&[thinks, chunk(&json!({}), json!("stop"))]) + "data: [DONE]\n\n";
    let second = chat::body().text("Hi.").answer();
    let server = LoopbackServer::start([Answer::sse(first), second]).await.expect("a server");
    let agent = Agent::builder(provider("chat", &server)).build().expect("an agent");
    let mut chat = agent.chat();
    assert_eq!(chat.send("Hello?").await.expect("an answer").text(), "");
    assert_eq!(chat.send("Hello??").await.expect("an answer").text(), "Hi.");
    let body = server.requests()[1].json();
    let empty =
        |it: &Value| it["role"] == "assistant" && it["content"].as_str().is_none_or(str::is_empty);
    assert!(!list(&body).iter().any(empty), "{body}");
}
