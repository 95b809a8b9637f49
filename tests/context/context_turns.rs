//! Results that are cleared during a turn: how the thinking of that turn is sent, checked by
//! servers that refuse what their vendors refuse.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, AnthropicProvider, Message, OpenAIProvider, Provider, Tool,
    context::Window,
    journal::{ClearedResult, Envelope, Fact, Journal, MemoryJournal},
    provider::Effort,
    testing::{Answer, LoopbackServer, ScriptedProvider, anthropic, reply, responses},
};
use serde_json::{Value, json};

use crate::{
    probe::{READ, WRITE},
    summaries::{asks, summary},
};

const WINDOW: u64 = 8_000;

/// So often the model calls in one turn.
const CALLS: usize = 16;

fn look() -> Tool {
    let seen = AtomicUsize::new(0);
    Tool::new("look", "Looks.", json!({"type": "object"}), READ, move |_, _| {
        let number = seen.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(format!("Seen {number}. {:->3000}", "").into()) })
    })
}

fn refuses(message: &str) -> Answer {
    Answer::json(400, &json!({"error": {"type": "invalid_request_error", "message": message}}))
}

/// Signs what came before: the model binds its thinking to it.
fn signature(messages: &[Value]) -> String {
    let text = serde_json::to_string(messages).unwrap();
    let sum = text.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{sum:016x}")
}

fn members<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A server with Anthropic's rules. A model with a budget for thinking refuses a request whose last answer calls tools and
/// does not begin with its thinking. A newer model refuses thinking that follows other words than it was made after.
fn messages(body: &Value, tokens: u64) -> Answer {
    let has_budget = body["thinking"]["type"] == "enabled";
    let all = members(body, "messages");
    let last = all.iter().rposition(|message| message["role"] == "assistant");
    if let Some(last) = last {
        let blocks = members(&all[last], "content");
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        if has_budget && calls && blocks[0]["type"] != "thinking" {
            return refuses("Expected `thinking` or `redacted_thinking`, but found `tool_use`");
        }
    }
    for (at, message) in all.iter().enumerate().filter(|_| !has_budget) {
        let bound = signature(&unmarked(&all[..at]));
        let thinks = |block: &&Value| block["type"] == "thinking";
        if members(message, "content").iter().filter(thinks).any(|it| it["signature"] != bound) {
            return refuses("what is bound to other words stands here");
        }
    }
    let number = members(body, "messages").len();
    let answer = anthropic::body().thinking("I look.", &signature(&unmarked(all)));
    match number < 2 * CALLS {
        true => answer.call(&format!("call_{number}"), "look", json!({})),
        false => answer.text("All seen."),
    }
    .usage(tokens, 20)
    .answer()
}

/// The messages without what marks the end of a part that the vendor keeps.
fn unmarked(messages: &[Value]) -> Vec<Value> {
    let text = serde_json::to_string(messages).unwrap();
    let text = text.replace(r#""cache_control":{"type":"ephemeral"},"#, "");
    serde_json::from_str(&text).unwrap()
}

/// The server of OpenAI: what has an id of its own needs the thinking before it.
fn items(body: &Value, tokens: u64) -> Answer {
    let all = members(body, "input");
    let alone = all.iter().enumerate().any(|(at, item)| {
        let thought = at.checked_sub(1).is_some_and(|before| all[before]["type"] == "reasoning");
        item["type"] == "function_call" && item.get("id").is_some() && !thought
    });
    if alone {
        return refuses("a `function_call` stands alone");
    }
    let number = all.iter().filter(|item| item["type"] == "function_call").count();
    let answer = responses::body().reasoning(&[], &format!("sealed {number}"));
    match number < CALLS {
        true => answer.call(&format!("call_{number}"), "look", json!({})),
        false => answer.text("All seen."),
    }
    .usage(tokens, 20)
    .answer()
}

fn provider(model: &str, url: &str) -> Box<dyn Provider> {
    match model {
        "gpt-5" => {
            let builder = OpenAIProvider::builder().api_key("k").base_url(url);
            Box::new(builder.model(model).build().unwrap())
        }
        _ => {
            let builder =
                AnthropicProvider::builder().api_key("k").base_url(url).effort(Effort::Medium);
            Box::new(builder.model(model).build().unwrap())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_after_a_move_with_the_thinking_that_its_model_needs() {
    for model in ["claude-sonnet-4-5", "claude-opus-4-8", "gpt-5"] {
        let bodies = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let seen = Arc::clone(&bodies);
        let server = LoopbackServer::answering(move |request| {
            seen.lock().unwrap().push(request.body().to_vec());
            let body: Value = serde_json::from_slice(request.body()).expect("JSON");
            let tokens = request.body().len() as u64 / 4;
            if model == "gpt-5" { items(&body, tokens) } else { messages(&body, tokens) }
        });
        let server = server.await.unwrap();
        let agent = Agent::builder(provider(model, &server.url()))
            .guardrails(harness::Guardrails::default().repeated_calls(None))
            .tools([look()])
            .window(Window::new().tokens(WINDOW))
            .build()
            .unwrap();
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "long").await.unwrap();
        let reply = chat.send("Look around.").await.unwrap_or_else(|err| panic!("{model}: {err}"));
        assert_eq!(reply.text(), "All seen.", "{model}");
        // What was kept for the turn stays where it is when the next one begins.
        chat.send("And now?").await.unwrap_or_else(|err| panic!("{model}: {err}"));

        let facts = journal.read("long", 0).await.unwrap().facts;
        let is_move = |entry: &Fact| matches!(entry, Fact::ContextCleared { .. });
        let moves = facts.iter().filter(|fact| is_move(&fact.fact().unwrap())).count();
        assert!(moves > 1, "{model}: {moves}");
        let bodies = bodies.lock().unwrap();
        let differs = |pair: &&[Vec<u8>]| {
            let before = pair[0].strip_suffix(b"]}").expect("the list is last");
            !pair[1].starts_with(before)
        };
        assert_eq!(bodies.windows(2).filter(differs).count(), moves, "{model}");
    }
}

/// The turn that is open when something moves begins behind the words of the user. The answer before them is of an
/// earlier turn, and its thinking is left out.
#[tokio::test]
async fn of_the_thinking_before_a_move_only_that_of_the_open_turn_is_sent() {
    let bodies = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&bodies);
    let server = LoopbackServer::answering(move |request| {
        let mut bodies = seen.lock().unwrap();
        bodies.push(String::from_utf8_lossy(request.body()).into_owned());
        match bodies.len() {
            1 => anthropic::body().thinking("Hm.", "thought-1").text("Here I am.").answer(),
            2 => {
                anthropic::body().thinking("Hm.", "thought-2").call("a", "look", json!({})).answer()
            }
            3 => refuses("No."),
            _ => anthropic::body().text("All seen.").answer(),
        }
    });
    let server = server.await.unwrap();
    let agent = Agent::builder(provider("claude-sonnet-4-5", &server.url())).tools([look()]);
    let agent = agent.build().unwrap();
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    chat.send("Are you there?").await.unwrap();
    chat.send("Look around.").await.expect_err("the server refuses");
    drop(chat);
    let cleared = Fact::ContextCleared {
        results: vec![ClearedResult::new("a", "[a line]")],
        arguments: Vec::new(),
        before: 9,
        after: 1,
    };
    let last = journal.read("a", 0).await.unwrap().head;
    journal.append("a", last, &[Envelope::of(&cleared, 0).unwrap()]).await.unwrap();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    assert_eq!(chat.resume().await.unwrap().text(), "All seen.");
    let bodies = bodies.lock().unwrap();
    let thought = |body: &str| ["thought-1", "thought-2"].map(|thought| body.contains(thought));
    assert_eq!((bodies.len(), thought(&bodies[2])), (4, [true, true]));
    assert!(bodies[3].contains("[a line]"));
    assert_eq!(thought(&bodies[3]), [false, true]);
}

/// A summary has the beginning of the arguments of a call that may have partly run. The model reads the rest, from what
/// was said: also in another process, and of no other call.
#[tokio::test]
async fn the_arguments_of_a_call_that_was_summed_up_are_read_whole() {
    let content: String =
        (1..=2_000).map(|line| format!("line {line} is {}\n", line * 7919)).collect();
    let written = content.clone();
    let model = ScriptedProvider::answering(move |request| {
        let last = request.last_text();
        if asks(request) {
            return reply().text(summary("none"));
        }
        match &*last {
            "Write." => reply().call("write", json!({"content": written})),
            "Read it." => {
                reply().call("read_result", json!({"name": "a-1-0", "search": "line 1999 "}))
            }
            "Read others." => reply().call("read_result", json!({"name": "a-1-1"})),
            _ => reply().text("x".repeat(600)),
        }
    });
    let write = Tool::new("write", "Writes.", json!({"type": "object"}), WRITE, |_, _| {
        Box::pin(async { panic!("half way") })
    });
    let agent = Agent::builder(model).tools([write]).build().unwrap();
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "long").await.unwrap();
    chat.send("Write.").await.unwrap();
    for number in 0..20 {
        chat.send(format!("Message {number}.")).await.unwrap();
    }
    chat.compact().await.unwrap();
    let sent: String = chat.sent().messages().iter().map(Message::text).collect();
    let told = "(all of them: `a-1-0`, which `read_result` reads) may have partly run";
    assert!(sent.contains(told) && sent.contains("line 50 is") && !sent.contains("line 1000 is"));
    drop(chat);
    let mut chat = agent.open(&journal, "long").await.unwrap();
    let results = |chat: &harness::Chat| -> Vec<String> {
        let messages = chat.transcript().messages().iter();
        messages.flat_map(|message| message.results()).map(|result| result.to_text()).collect()
    };
    chat.send("Read it.").await.unwrap();
    let found = results(&chat).pop().unwrap();
    assert!(
        found.contains("1 hits, all of them") && found.contains("line 1999 is 15830081"),
        "{found}"
    );
    chat.send("Read others.").await.unwrap();
    let none = results(&chat).pop().unwrap();
    assert!(none.contains("no result of this conversation is kept by that name"), "{none}");
}
