//! If a model asks the program to execute something that the library cannot, the run ends with a
//! reason that names it, the item is kept, and the conversation can continue.

use harness::{
    Agent, Block, CallOutcome, ChatCompletionsProvider, Message, OpenAIProvider, Outcome, Role,
    StopReason, ToolCall, ToolResult, Transcript,
    message::VendorData,
    provider::{PromptCache, Request, Settings, WantedItem},
    testing::{Answer, LoopbackServer},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::decoded::{Decoded, both_ways, named, unnamed};

fn decoded(wire: &str, parts: &[Value]) -> Decoded {
    both_ways(wire, &body(wire, parts), Default::default())
}

/// An answer of these items, blocks or calls.
fn body(wire: &str, parts: &[Value]) -> String {
    match wire {
        "responses" => {
            let done = (0..).zip(parts).map(|(at, item)| {
                json!({"type": "response.output_item.done", "output_index": at, "item": item})
            });
            let end = json!({"type": "response.completed", "response": {"status": "completed"}});
            named(&done.chain([end]).collect::<Vec<_>>())
        }
        "anthropic" => {
            let blocks = (0..).zip(parts).flat_map(|(at, block)| {
                [
                    json!({"type": "content_block_start", "index": at, "content_block": block}),
                    json!({"type": "content_block_stop", "index": at}),
                ]
            });
            let end = [
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ];
            let start = json!({"type": "message_start", "message": {"id": "m"}});
            named(&[start].into_iter().chain(blocks).chain(end).collect::<Vec<_>>())
        }
        _ => {
            let chunk = |delta: Value, finish: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            let calls = parts.iter().map(|call| chunk(json!({"tool_calls": [call]}), Value::Null));
            let end = chunk(json!({}), json!("tool_calls"));
            unnamed(&calls.chain([end]).collect::<Vec<_>>()) + "data: [DONE]\n\n"
        }
    }
}

fn function(wire: &str) -> Value {
    match wire {
        "responses" => json!({"type": "function_call", "id": "fc_1", "call_id": "c1",
            "name": "look", "arguments": "{}"}),
        "anthropic" => json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}}),
        _ => json!({"index": 0, "id": "c1", "type": "function",
            "function": {"name": "look", "arguments": "{}"}}),
    }
}

fn wanting() -> Vec<(&'static str, Value)> {
    let item =
        |kind: &str| json!({"type": kind, "id": "i_1", "call_id": "call_1", "status": "completed"});
    vec![
        ("responses", item("local_shell_call")),
        ("responses", item("shell_call")),
        ("responses", item("apply_patch_call")),
        ("responses", item("computer_call")),
        ("responses", item("something_new_call")),
        // Without the id that an output refers to.
        (
            "responses",
            json!({"type": "tool_search_call", "id": "tsc_1", "execution": "client",
                "arguments": {"query": "mail"}, "status": "completed"}),
        ),
        (
            "responses",
            json!({"type": "mcp_approval_request", "id": "mcpr_1", "name": "pay",
                "server_label": "shop", "arguments": "{}"}),
        ),
        ("anthropic", json!({"type": "browser_use", "id": "b1", "name": "browser", "input": {}})),
        (
            "chat",
            json!({"index": 0, "id": "c1", "type": "custom",
                "custom": {"name": "sql", "input": "select"}}),
        ),
    ]
}

#[test]
fn an_item_that_the_program_is_to_execute_is_named_and_no_call_beside_it_runs() {
    for (wire, item) in wanting() {
        let kind = WantedItem::new(item["type"].as_str().unwrap());
        for parts in [vec![item.clone()], vec![function(wire), item.clone()]] {
            let decoded = decoded(wire, &parts);
            assert_eq!(decoded.stop(), StopReason::Unsupported(kind), "{wire} {item}");
            assert!(!decoded.stop().lets_calls_run());
            let message = decoded.answer().message.expect("it is kept");
            let kept = message.blocks().iter().any(|block| match block {
                Block::Vendor(data) => data.json().contains(kind.as_str()),
                _ => false,
            });
            assert!(kept, "{wire} {item}");
        }
    }
}

#[test]
fn what_the_vendor_executes_itself_is_no_such_item() {
    let with_output = |kind: &str| {
        vec![
            json!({"type": format!("{kind}_call"), "id": "i_1", "call_id": "call_1"}),
            json!({"type": format!("{kind}_call_output"), "id": "o_1", "call_id": "call_1"}),
        ]
    };
    let table = [
        ("responses", with_output("shell")),
        (
            "responses",
            vec![json!({"type": "web_search_call", "id": "ws_1", "status": "completed"})],
        ),
        (
            "responses",
            vec![json!({"type": "tool_search_call", "call_id": "call_1", "execution": "server"})],
        ),
        (
            "anthropic",
            vec![
                json!({"type": "browser_use", "id": "b1", "input": {}}),
                json!({"type": "browser_result", "tool_use_id": "b1"}),
            ],
        ),
    ];
    for (wire, parts) in table {
        assert_eq!(decoded(wire, &parts).stop(), StopReason::Complete, "{wire} {parts:?}");
        let both = [parts, vec![function(wire)]].concat();
        assert_eq!(decoded(wire, &both).stop(), StopReason::ToolCalls, "{wire} {both:?}");
    }
    // A search of the vendor's gets its result when the calls have theirs.
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let both = decoded("anthropic", &[search, function("anthropic")]);
    assert_eq!(both.stop(), StopReason::ToolCalls);
}

fn sent(wire: &str, transcript: &Transcript) -> Vec<Value> {
    let request = Request::new(transcript).unwrap();
    let (model, settings) = ("m".to_owned(), Settings::default());
    let body = match wire {
        "anthropic" => anthropic::encode(
            &request,
            &anthropic::Options {
                settings: Settings { prompt_cache: Some(PromptCache::Off), ..settings },
                ..anthropic::Options::new(model)
            },
        ),
        "responses" => responses::encode(
            &request,
            &responses::Options { settings, ..responses::Options::new(model) },
        ),
        _ => chat::encode(&request, &chat::Options::new("m")),
    };
    let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
    let name = if wire == "responses" { "input" } else { "messages" };
    body[name].as_array().unwrap().clone()
}

#[test]
fn the_vendor_is_told_that_it_was_not_executed_or_hears_nothing_of_it() {
    let thought =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    for (wire, item) in wanting() {
        let parts = match wire {
            "responses" => vec![thought.clone(), item.clone()],
            _ => vec![item.clone()],
        };
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Do it.")).unwrap();
        transcript.push(decoded(wire, &parts).answer().message.unwrap()).unwrap();
        transcript.push(Message::user("And now?")).unwrap();
        let list = sent(wire, &transcript);
        let between = &list[1..list.len() - 1];
        let kind = item["type"].as_str().unwrap();
        let answer = match kind {
            "shell_call" => Some(("shell_call_output", "call_id", "call_1")),
            "apply_patch_call" => Some(("apply_patch_call_output", "call_id", "call_1")),
            "mcp_approval_request" => {
                Some(("mcp_approval_response", "approval_request_id", "mcpr_1"))
            }
            _ => None,
        };
        match answer {
            Some((output, name, id)) => {
                let kinds: Vec<&Value> = between.iter().map(|item| &item["type"]).collect();
                assert_eq!(kinds, ["reasoning", kind, output]);
                assert_eq!(between[2][name], id);
                assert_ne!(between[2]["approve"], true);
            }
            None => assert!(between.is_empty(), "{wire} {kind}: {between:?}"),
        }
    }
    // What was executed by the vendor is sent as it is, with the thinking before it.
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Do it.")).unwrap();
    let parts = [
        thought,
        json!({"type": "computer_call", "id": "i_1", "call_id": "call_1"}),
        json!({"type": "computer_call_output", "id": "o_1", "call_id": "call_1"}),
    ];
    transcript.push(decoded("responses", &parts).answer().message.unwrap()).unwrap();
    transcript.push(Message::user("And now?")).unwrap();
    let kinds: Vec<Value> =
        sent("responses", &transcript).iter().map(|item| item["type"].clone()).collect();
    let expected = ["message", "reasoning", "computer_call", "computer_call_output", "message"];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn a_run_stops_names_the_item_and_goes_on() {
    let item =
        json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed"});
    let first = body("responses", &[item, function("responses")]);
    let words = json!({"type": "message", "id": "msg_1",
        "content": [{"type": "output_text", "text": "Fine."}]});
    let last = body("responses", &[words]);
    for resumed in [false, true] {
        let answers = [first.clone(), last.clone()].map(Answer::sse);
        let server = LoopbackServer::start(answers).await.unwrap();
        let provider = OpenAIProvider::builder().api_key("k").base_url(server.url());
        let agent = Agent::builder(provider.build().unwrap()).build().unwrap();
        let mut chat = agent.chat();
        let stopped = chat.send("List the files.").await.unwrap_err();
        let kind = WantedItem::new("shell_call");
        assert_eq!(stopped.outcome(), Outcome::Unsupported(kind));
        assert!(stopped.to_string().contains("`shell_call`"), "{stopped}");
        let told = stopped.transcript().messages().last().unwrap().results().next().unwrap();
        assert!(
            told.to_text().contains("was not started") && told.to_text().contains("shell_call")
        );
        let reply = match resumed {
            true => chat.resume().await.unwrap(),
            false => chat.send("Without that.").await.unwrap(),
        };
        assert_eq!(reply.text(), "Fine.");
        let input = server.requests()[1].json()["input"].clone();
        let outputs = input
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output")));
        assert_eq!(outputs.count(), 2, "{input}");
    }
    // Of an item alone the model is told when the run goes on.
    let call = json!({"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql"}});
    let answers = [body("chat", &[call]), body("chat", &[])].map(Answer::sse);
    let server = LoopbackServer::start(answers).await.unwrap();
    let provider =
        ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
    let mut chat = Agent::builder(provider).build().unwrap().chat();
    let stopped = chat.send("Query.").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Unsupported(WantedItem::new("custom")));
    let shown = stopped.to_string();
    assert!(shown.contains("`custom`") && shown.contains("`resume`"), "no way out: {shown}");
    chat.resume().await.unwrap();
    let sent = server.requests()[1].json();
    let last = sent["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(last.as_str().unwrap().contains("could not execute the `custom`"), "{last}");
}

#[test]
fn an_item_is_written_down_by_its_name() {
    let stop = StopReason::Unsupported(WantedItem::new("computer_call"));
    let json = serde_json::to_string(&stop).unwrap();
    assert_eq!(json, r#"{"unsupported":"computer_call"}"#);
    assert_eq!(serde_json::from_str::<StopReason>(&json).unwrap(), stop);
    let long = WantedItem::new(&"é_call".repeat(40));
    assert_eq!(long.as_str().len(), 47);
}

#[test]
fn what_the_vendor_ran_for_an_answer_that_was_cut_off_is_left_out() {
    let used =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found =
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let kept =
        |json: &Value| Block::Vendor(VendorData::new("anthropic", json.to_string()).unwrap());
    let words = || Block::text("I look.");
    let call = || Block::ToolCall(ToolCall::new("c", "look", "{}"));
    // With its result, and where the result comes later, it goes back as it came.
    for (blocks, paused, expected) in [
        (vec![words(), kept(&used)], false, vec!["text"]),
        (
            vec![words(), kept(&used), kept(&found)],
            false,
            vec!["text", "server_tool_use", "web_search_tool_result"],
        ),
        (vec![words(), kept(&used)], true, vec!["text", "server_tool_use"]),
        (vec![words(), kept(&used), call()], false, vec!["text", "server_tool_use", "tool_use"]),
    ] {
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let message = Message::assistant(blocks);
        let mut saved = serde_json::to_value(message).unwrap();
        saved["paused"] = json!(paused);
        let message: Message = serde_json::from_value(saved).unwrap();
        assert_eq!(message.is_paused(), paused);
        let mut transcript = Transcript::default();
        transcript.push(Message::user("?")).unwrap();
        transcript.push(message).unwrap();
        if calls {
            let result = ToolResult::new("c", CallOutcome::Succeeded, ["42".into()]);
            transcript.push(Message::new(Role::Tool, [Block::ToolResult(result)])).unwrap();
        } else if !paused {
            transcript.push(Message::user("And?")).unwrap();
        }
        let request = Request::new(&transcript).unwrap();
        let options = anthropic::Options {
            settings: Settings { prompt_cache: Some(PromptCache::Off), ..Settings::default() },
            ..anthropic::Options::new("m")
        };
        let body: Value =
            serde_json::from_slice(&anthropic::encode(&request, &options).unwrap()).unwrap();
        let content = body["messages"][1]["content"].as_array().unwrap();
        let kinds: Vec<&str> = content.iter().map(|it| it["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected);
    }
}

/// A search for tools that the program runs is a call, also if its first event does not say who runs it. One that was cut off
/// does not run.
#[test]
fn a_search_that_the_program_runs_is_a_call_unless_it_was_cut() {
    let item = |status: &str| {
        json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client",
            "arguments": {"query": "mail"}, "status": status})
    };
    let decoded = |first: &Value, status: &str| {
        let events = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": first}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item(status)}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ];
        both_ways("responses", &named(&events), Default::default())
    };
    let late = json!({"type": "tool_search_call", "id": "tsc_1", "status": "in_progress"});
    for first in [item("in_progress"), late] {
        let whole = decoded(&first, "completed");
        assert_eq!(whole.stop(), StopReason::ToolCalls, "{first}");
        let message = whole.answer().message.expect("a message");
        let call = message.calls().next().expect("a call");
        assert_eq!((call.name(), call.id()), ("tool_search", "call_1"));
        assert_eq!(call.arguments(), r#"{"query":"mail"}"#);
        assert_eq!(decoded(&first, "incomplete").stop(), StopReason::Truncated, "{first}");
    }
}
