//! Strict checks of a request's body: each returns why a server would answer with status 400, or
//! nothing. Source: the vendors' documentation of their APIs.

use std::collections::HashSet;

use harness::{
    Transcript,
    provider::Request,
    tool::ToolSchema,
    wire::{anthropic as anthropic_wire, chat as chat_wire, responses as responses_wire},
};
use serde_json::Value;

type Checked = Result<(), String>;

/// Checks what would be sent of a conversation on every wire.
pub(crate) fn all_wires(transcript: &Transcript, tools: &[ToolSchema]) -> Checked {
    let request =
        || Request::new(transcript).map(|request| request.with_tools(tools)).map_err(text);
    let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).map_err(text);
    let model = || "m".to_owned();

    let options = anthropic_wire::Options::new(model());
    let body = read(anthropic_wire::encode(&request()?, &options).map_err(text)?)?;
    anthropic(&body).map_err(|err| format!("anthropic: {err}; {body}"))?;

    let options = responses_wire::Options::new(model());
    let body = read(responses_wire::encode(&request()?, &options).map_err(text)?)?;
    responses(&body).map_err(|err| format!("responses: {err}; {body}"))?;

    let options = chat_wire::Options::new(model());
    let body = read(chat_wire::encode(&request()?, &options).map_err(text)?)?;
    chat(&body).map_err(|err| format!("chat: {err}; {body}"))
}

/// Anthropic's Messages API.
pub(crate) fn anthropic(body: &Value) -> Checked {
    check(!word(body, "model").is_empty(), || "no model")?;
    check(body["max_tokens"].as_u64().is_some_and(|most| most > 0), || "no `max_tokens`")?;
    let messages = items(&body["messages"]);
    check(!messages.is_empty(), || "no message")?;
    let mut owed: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = items(&message["content"]);
        let check = |holds, why: &str| check(holds, || format!("message {at}: {why}"));
        check(!blocks.is_empty(), "no content, or none in blocks")?;
        match word(message, "role") {
            "user" => {
                let given = results(blocks);
                check(given == owed, &format!("calls {owed:?}, results {given:?}"))?;
                check(
                    blocks.iter().skip(given.len()).all(|block| kind(block) != "tool_result"),
                    "a result stands behind something else",
                )?;
                owed.clear();
            }
            "assistant" => {
                check(at > 0, "it begins with the assistant")?;
                check(owed.is_empty(), &format!("no results for {owed:?}"))?;
                owed = calls(blocks, "id", "tool_use");
                let first = blocks.iter().position(|block| kind(block) == "tool_use");
                let behind = blocks.iter().skip(first.unwrap_or(blocks.len()));
                let mut behind = behind.filter(|block| kind(block) != "tool_use");
                check(behind.next().is_none(), "something stands behind a call")?;
                let last = blocks.last().map_or("", kind);
                check(!last.ends_with("thinking"), "it ends with thinking")?;
            }
            other => check(false, &format!("the role is {other:?}"))?,
        }
        for block in blocks {
            anthropic_block(block).map_err(|why| format!("message {at}: {why}"))?;
        }
    }
    check(owed.is_empty(), || format!("no results for {owed:?}"))?;
    check(
        messages.last().is_some_and(|last| last["role"] == "user"),
        || "the last message is from the assistant",
    )?;
    let uses_tools = messages
        .iter()
        .any(|message| !calls(items(&message["content"]), "id", "tool_use").is_empty());
    check(!uses_tools || !items(&body["tools"]).is_empty(), || "calls, but no tools")
}

fn anthropic_block(block: &Value) -> Checked {
    let said = |field| !word(block, field).trim().is_empty();
    match kind(block) {
        "text" => check(said("text"), || "a text without a word"),
        "thinking" => check(said("signature"), || "thinking without a signature"),
        "redacted_thinking" => check(said("data"), || "redacted thinking without data"),
        "image" => check(block["source"].is_object(), || "an image without a source"),
        "tool_use" => {
            check(is_id(word(block, "id"), 64), || "the id of a call")?;
            check(is_id(word(block, "name"), 64), || "the name of a call")?;
            check(block["input"].is_object(), || "the input of a call is no object")
        }
        "tool_result" => {
            let content = &block["content"];
            let parts = items(content);
            let empty = content.as_str().is_none_or(|text| text.trim().is_empty());
            check(content.is_null() || !parts.is_empty() || !empty, || "an empty result")?;
            check(!content.is_null() || block["is_error"] != true, || "an error without a word")?;
            let texts = |part: &Value| kind(part) == "text" || block["is_error"] != true;
            check(parts.iter().all(texts), || "an error with something else than text")?;
            parts.iter().try_for_each(anthropic_block)
        }
        other => Err(format!("a block {other:?}")),
    }
}

/// The ids that the results at the beginning of a message answer.
fn results(blocks: &[Value]) -> Vec<&str> {
    let results = blocks.iter().take_while(|block| kind(block) == "tool_result");
    results.map(|result| word(result, "tool_use_id")).collect()
}

/// OpenAI's Responses API, without a conversation stored by the vendor.
pub(crate) fn responses(body: &Value) -> Checked {
    check(!word(body, "model").is_empty(), || "no model")?;
    let input = items(&body["input"]);
    check(!input.is_empty(), || "no input")?;
    let (mut called, mut owed) = (HashSet::new(), Vec::new());
    for (at, item) in input.iter().enumerate() {
        let check = |holds, why: &str| check(holds, || format!("item {at}: {why}"));
        let id = word(item, "call_id");
        match (kind(item), word(item, "role")) {
            ("function_call", _) => {
                check(is_id(id, 64) && called.insert(id), "the id of a call")?;
                check(is_id(word(item, "name"), 64), "the name of a call")?;
                check(item["arguments"].is_string(), "arguments that are no text")?;
                owed.push(id);
            }
            ("function_call_output", _) => {
                let answered = owed.iter().position(|owed| *owed == id);
                check(answered.is_some(), "an output without a call, or a second one")?;
                answered.map(|at| owed.remove(at));
                check(!item["output"].is_null(), "an output without content")?;
            }
            ("message" | "", role) => {
                check(["user", "assistant", "developer", "system"].contains(&role), "the role")?;
                // The model's own words may stand among its calls, as it said them.
                let own = role == "assistant";
                check(own || owed.is_empty(), &format!("no output for {owed:?}"))?;
                let content = &item["content"];
                let said = content.as_str().is_some_and(|text| !text.is_empty());
                check(said || !items(content).is_empty(), "a message without content")?;
            }
            ("reasoning", _) => check(item["summary"].is_array(), "reasoning without a summary")?,
            (other, _) => check(false, &format!("an item {other:?}"))?,
        }
    }
    check(owed.is_empty(), || format!("no output for {owed:?}"))
}

/// The Chat Completions API, as the strictest of its servers take it.
pub(crate) fn chat(body: &Value) -> Checked {
    check(!word(body, "model").is_empty(), || "no model")?;
    let messages = items(&body["messages"]);
    check(!messages.is_empty(), || "no message")?;
    let mut owed: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let check = |holds, why: &str| check(holds, || format!("message {at}: {why}"));
        let content = &message["content"];
        let said = content.as_str().is_some_and(|text| !text.is_empty());
        let said = said || !items(content).is_empty();
        let role = word(message, "role");
        check(role == "tool" || owed.is_empty(), &format!("no results for {owed:?}"))?;
        match role {
            "system" | "developer" => check(at == 0, "it is not the first")?,
            "user" => check(said, "nothing said")?,
            "tool" => {
                let id = word(message, "tool_call_id");
                check(owed.first() == Some(&id), &format!("a result of {id:?}, not {owed:?}"))?;
                owed.remove(0);
                check(content.is_string() || !items(content).is_empty(), "no content")?;
            }
            "assistant" => {
                let made = items(&message["tool_calls"]);
                check(said || !made.is_empty(), "nothing said and nothing called")?;
                for call in made {
                    check(is_id(word(call, "id"), 64), "the id of a call")?;
                    let function = &call["function"];
                    check(is_id(word(function, "name"), 64), "the name of a call")?;
                    let object = serde_json::from_str::<Value>(word(function, "arguments"));
                    check(object.is_ok_and(|value| value.is_object()), "arguments")?;
                }
                owed = made.iter().map(|call| word(call, "id")).collect();
            }
            other => check(false, &format!("the role {other:?}"))?,
        }
    }
    check(owed.is_empty(), || format!("no results for {owed:?}"))?;
    let last = messages.last().map_or("", |last| word(last, "role"));
    check(last != "assistant", || "the last message is from the assistant")
}

fn calls<'a>(blocks: &'a [Value], id: &str, of: &str) -> Vec<&'a str> {
    blocks.iter().filter(|block| kind(block) == of).map(|block| word(block, id)).collect()
}

fn check<W: Into<String>>(holds: bool, why: impl FnOnce() -> W) -> Checked {
    if holds { Ok(()) } else { Err(why().into()) }
}

fn is_id(id: &str, most: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=most).contains(&id.len()) && id.chars().all(fits)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn kind(block: &Value) -> &str {
    word(block, "type")
}

fn text(err: impl std::fmt::Display) -> String {
    err.to_string()
}

#[test]
fn the_checks_find_what_the_vendors_refuse() {
    use serde_json::json;
    let user = json!({"role": "user", "content": [{"type": "text", "text": "Hi"}]});
    let call = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}});
    let asks = json!({"role": "assistant", "content": [call]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
    let text = json!({"type": "text", "text": "Then."});
    let blank = json!({"type": "text", "text": " \n"});
    let say = |role: &str, blocks: Value| json!({"role": role, "content": blocks});
    let table = [
        (json!([user]), ""),
        (json!([user, asks, say("user", json!([result, text]))]), ""),
        (json!([user, user]), ""),
        (json!([]), "no message"),
        (json!([asks]), "begins with the assistant"),
        (json!([user, say("assistant", json!([text]))]), "last message"),
        (json!([user, asks]), "no results"),
        (json!([user, asks, user]), "results []"),
        (json!([user, asks, say("user", json!([text, result]))]), "results []"),
        (json!([user, say("user", json!([result]))]), "calls []"),
        (json!([user, say("user", json!([blank]))]), "without a word"),
        (json!([user, say("assistant", json!([call, text])), user]), "behind a call"),
    ];
    for (messages, expected) in table {
        let body = json!({"model": "m", "max_tokens": 1, "messages": messages, "tools": [{}]});
        match anthropic(&body) {
            Ok(()) => assert_eq!(expected, "", "{body}"),
            Err(err) => assert!(!expected.is_empty() && err.contains(expected), "{err}: {body}"),
        }
    }
    let call = json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let other = json!({"type": "function_call", "call_id": "b", "name": "t", "arguments": "{}"});
    let says = json!({"role": "assistant", "content": "Well."});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "x"});
    let user = json!({"role": "user", "content": "Hi"});
    for (input, expected) in [
        (json!([user, call, output, user]), ""),
        (json!([user, call]), "no output"),
        (json!([user, call, user, output]), "no output"),
        (json!([user, output]), "without a call"),
        (json!([user, call, call, output]), "the id"),
        (json!([user, call, says, output]), ""),
        (json!([user, call, says, other, output]), "no output"),
    ] {
        match responses(&json!({"model": "m", "input": input})) {
            Ok(()) => assert_eq!(expected, "", "{input}"),
            Err(err) => assert!(!expected.is_empty() && err.contains(expected), "{err}: {input}"),
        }
    }
    let function = json!({"name": "t", "arguments": "{}"});
    let call = json!({"id": "a", "type": "function", "function": function});
    let asks = json!({"role": "assistant", "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "x"});
    for (messages, expected) in [
        (json!([user, asks, result]), ""),
        (json!([user, asks]), "no results"),
        (json!([user, asks, user]), "no results"),
        (json!([user, result]), "a result of"),
        (json!([user, {"role": "assistant"}, user]), "nothing said"),
    ] {
        match chat(&json!({"model": "m", "messages": messages})) {
            Ok(()) => assert_eq!(expected, "", "{messages}"),
            Err(err) => {
                assert!(!expected.is_empty() && err.contains(expected), "{err}: {messages}")
            }
        }
    }
}
