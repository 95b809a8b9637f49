//! Long arguments of successful calls are no longer sent whole when the window gets full; they are
//! read again by name.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, ErrorKind, Event, Guardrails, Message, Permissions, Tool, ToolCall,
    ToolError,
    agent::Machine,
    context::Window,
    journal::{ClearedArguments, Fact, Journal, MemoryJournal},
    testing::{
        Answer, LoopbackServer, ScriptedProvider, ScriptedReply, anthropic, chat, reply, responses,
    },
};
use serde_json::{Value, json};

use crate::{
    probe::WRITE,
    summaries::{asks, summary},
    wire_providers::{WIRES, provider},
};

/// What the model writes into a file: 1,200 bytes, which no other file has.
fn content(number: usize) -> String {
    format!("file {number} {:-<1200}", "").chars().take(1200).collect()
}

/// A tool that changes something, and keeps what it was given.
fn write(written: &Arc<Mutex<Vec<String>>>) -> Tool {
    let written = Arc::clone(written);
    Tool::new("write", "Writes.", json!({"type": "object"}), WRITE, move |_, arguments| {
        let text = arguments.get("content").and_then(Value::as_str).unwrap_or_default();
        written.lock().unwrap().push(text.to_owned());
        let fails = text.contains("fail");
        Box::pin(async move {
            if fails { Err(ToolError::new("the disk is full")) } else { Ok("Written.".into()) }
        })
    })
}

fn writes(number: usize) -> ScriptedReply {
    let arguments = json!({"path": format!("{number}.txt"), "content": content(number)});
    reply().call_with_id(format!("w_{number}"), "write", arguments)
}

fn agent(model: ScriptedProvider, written: &Arc<Mutex<Vec<String>>>) -> Agent {
    let limits = Guardrails::default().turns(1_000);
    let window = Window::new().tokens(4_000).keep_messages();
    let built = Agent::builder(model).tools([write(written)]).window(window).guardrails(limits);
    built.permissions(Permissions::allow_all()).build().unwrap()
}

/// A model that writes so many files, says what `last` says, and then is done.
fn writing(times: usize, last: fn(usize) -> ScriptedReply) -> ScriptedProvider {
    let asked = AtomicUsize::new(0);
    ScriptedProvider::answering(move |request| {
        if asks(request) {
            return reply().text(summary("keep writing"));
        }
        match asked.fetch_add(1, Ordering::Relaxed) {
            number if number < times => writes(number),
            number => last(number - times),
        }
    })
}

/// The calls of what is sent, or of the transcript.
fn calls<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<ToolCall> {
    messages.into_iter().flat_map(|message| message.calls().cloned().collect::<Vec<_>>()).collect()
}

const LINE: &str = "[1200 bytes stood here, and were left out to save room: `read_result` reads these arguments whole as \
                    `a-1-0`.]";

#[tokio::test]
async fn long_arguments_of_old_calls_that_went_well_give_way_to_a_line_and_are_read_by_name() {
    let model = writing(12, |number| match number {
        0 => reply().call_with_id("r", "read_result", json!({"name": "a-1-0", "search": "file 0"})),
        _ => reply().text("Done."),
    });
    let written = Arc::default();
    let journal = MemoryJournal::new();
    let mut chat = agent(model, &written).open(&journal, "a").await.unwrap();
    let mut seen = Vec::new();
    let sent = chat.send("Write.").on_event(|event| {
        if let Event::ContextCleared { results, arguments, before, after } = event {
            seen.push((results, arguments, before - after));
        }
    });
    sent.await.unwrap();
    assert!((1..=4).contains(&seen.len()), "in steps: {seen:?}");
    assert!(
        seen.iter().all(|(results, calls, saved)| *results == 0 && *calls > 1 && *saved >= 400)
    );
    let sent = calls(chat.sent().messages().iter());
    assert_eq!(sent[0].arguments(), json!({"path": "0.txt", "content": LINE}).to_string());
    assert_eq!(sent[11].arguments(), calls(chat.transcript().messages().iter())[11].arguments());
    let whole: Vec<String> = (0..12).map(content).collect();
    assert_eq!(*written.lock().unwrap(), whole);
    let said = calls(chat.transcript().messages().iter());
    assert!(said[0].arguments().contains(&whole[0]), "the transcript keeps it");
    let read = {
        let mut results = chat.transcript().messages().iter().flat_map(Message::results);
        results.find(|result| result.call_id() == "r").unwrap().to_text()
    };
    assert!(read.contains("file 0 ---"), "{read}");
    // The facts alone make the same bytes.
    chat.save().await.unwrap();
    let sent = serde_json::to_string(&Vec::from(chat.sent().messages())).unwrap();
    drop(chat);
    let model = ScriptedProvider::new([reply().text("Yes.")]);
    let again = agent(model, &Arc::default()).open(&journal, "a").await.unwrap();
    assert_eq!(serde_json::to_string(&Vec::from(again.sent().messages())).unwrap(), sent);
}

/// Where nothing can be read again, of calls that failed or were denied, and of calls that their vendor has signed, all
/// stays.
#[tokio::test]
async fn arguments_that_could_not_be_read_again_or_that_are_bound_stay() {
    let fails: fn(usize) -> ScriptedReply = |number| match number {
        0..12 => {
            let arguments = json!({"content": format!("fail {number} {}", content(number))});
            reply().call_with_id(format!("f_{number}"), "write", arguments)
        }
        _ => reply().text("Done."),
    };
    let journal = MemoryJournal::new();
    for (denies, in_journal, times) in [(false, false, 12), (false, true, 0), (true, true, 12)] {
        let last = if times == 0 { fails } else { |_| reply().text("Done.") };
        let agent = {
            let built = Agent::builder(writing(times, last)).tools([write(&Arc::default())]);
            let rules = match denies {
                true => Permissions::allow_all().deny("write", "no files here"),
                false => Permissions::allow_all(),
            };
            let limits = Guardrails::default().turns(1_000).repetitions(100).failed_calls(100);
            let window = Window::new().tokens(8_000).clear_at(30).keep_messages();
            built.permissions(rules).window(window).guardrails(limits).build().unwrap()
        };
        let mut chat = match in_journal {
            true => agent.open(&journal, format!("{times} {denies}")).await.unwrap(),
            false => agent.chat(),
        };
        drop(chat.send("Write.").await);
        assert!(chat.context().used > 3_200, "{:?}", chat.context());
        assert_eq!(chat.sent(), chat.transcript(), "{denies} {in_journal} {times}");
    }
}

/// A model that reads the line in what it has called may write it itself: that call does not run, and no one is asked.
/// Where no line stands, it is a text like any other.
#[tokio::test]
async fn a_call_that_copies_the_line_does_not_run() {
    let copies = |number: usize| match number {
        0 => {
            let line = LINE.replace("a-1-0", "a-25-0").replace("1200", "977");
            reply().call_with_id("copy", "write", json!({"path": "x", "content": [[line]]}))
        }
        _ => reply().text("Done."),
    };
    for times in [0, 12] {
        let written = Arc::default();
        let journal = MemoryJournal::new();
        let agent = agent(writing(times, copies), &written);
        let mut chat = agent.open(&journal, "a").await.unwrap();
        chat.send("Write.").await.unwrap();
        let mut results = chat.transcript().messages().iter().flat_map(Message::results);
        let result = results.find(|result| result.call_id() == "copy").unwrap();
        let ran = written.lock().unwrap().len() > times;
        assert_eq!(ran, times == 0);
        if !ran {
            assert_eq!(result.outcome(), CallOutcome::NotStarted);
            let text = result.to_text();
            assert!(text.contains("its argument `content` has words of the line"), "{text}");
            assert!(text.contains("reads those of the earlier call as `a-25-0`"), "{text}");
        }
    }
}

/// What a fact says of arguments has to be true of the conversation.
#[tokio::test]
async fn facts_that_clear_other_arguments_are_refused() {
    let journal = MemoryJournal::new();
    let model = writing(2, |_| reply().text("Done."));
    let mut chat = agent(model, &Arc::default()).open(&journal, "a").await.unwrap();
    chat.send("Write.").await.unwrap();
    let mut machine = Machine::new();
    for fact in journal.read("a", 0).await.unwrap().facts {
        machine.apply(&fact.fact().unwrap()).unwrap();
    }
    let cleared = |message: u64, call: u64, arguments: &str| Fact::ContextCleared {
        results: Vec::new(),
        arguments: vec![ClearedArguments::new(message, call, arguments)],
        before: 9,
        after: 1,
    };
    let wrong = [
        cleared(0, 0, r#"{"path": "x"}"#),
        cleared(1, 1, r#"{"path": "x"}"#),
        cleared(2, 0, r#"{"path": "x"}"#),
        cleared(u64::MAX, u64::MAX, r#"{"path": "x"}"#),
        cleared(1, 0, "path"),
        cleared(1, 0, "[1]"),
        cleared(1, 0, "{}"),
    ];
    for fact in wrong {
        let error = machine.apply(&fact).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transcript, "{fact:?}");
        assert_eq!(machine.sent(), machine.transcript(), "{fact:?}");
    }
    let right = cleared(3, 0, r#"{"path": "x"}"#);
    machine.apply(&right).unwrap();
    assert!(machine.apply(&right).is_err(), "it was cleared before");
    let sent = calls(machine.sent().messages().iter());
    assert_eq!(sent[1].arguments(), r#"{"path": "x"}"#);
}

fn call_on(wire: &str, number: usize, tokens: u64, signs: bool) -> Answer {
    let (id, arguments) = (format!("w_{number}"), json!({"path": "f", "content": content(number)}));
    match wire {
        "anthropic" => anthropic::body().call(&id, "write", arguments).usage(tokens, 9).answer(),
        "responses" => responses::body().call(&id, "write", arguments).usage(tokens, 9).answer(),
        _ => {
            let mut call = json!({"id": id, "type": "function", "function":
                {"name": "write", "arguments": arguments.to_string()}});
            if signs {
                call["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
            }
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let choice = json!({"index": 0, "finish_reason": "tool_calls", "message": message});
            Answer::json(200, &json!({"id": "c", "model": "m", "choices": [choice]}))
        }
    }
}

/// On each wire a server reads the shorter arguments in the form of the protocol; a call that it has signed, as it came.
#[tokio::test]
async fn a_server_reads_shorter_arguments_and_its_signed_calls_as_they_were() {
    for (wire, signs) in
        [("anthropic", false), ("responses", false), ("chat", false), ("chat", true)]
    {
        assert!(WIRES.contains(&wire));
        let last = Arc::new(Mutex::new(String::new()));
        let (seen, asked) = (Arc::clone(&last), AtomicUsize::new(0));
        let server = LoopbackServer::answering(move |request| {
            *seen.lock().unwrap() = String::from_utf8_lossy(request.body()).into_owned();
            match asked.fetch_add(1, Ordering::Relaxed) {
                number if number < 12 => {
                    call_on(wire, number, request.body().len() as u64 / 4, signs)
                }
                _ if wire == "anthropic" => anthropic::body().text("Done.").answer(),
                _ if wire == "responses" => responses::body().text("Done.").answer(),
                _ => chat::body().text("Done.").answer(),
            }
        });
        let server = server.await.unwrap();
        let written = Arc::default();
        let window = Window::new().tokens(8_000).clear_at(30).keep_messages();
        let built = Agent::builder(provider(wire, &server.url())).tools([write(&written)]);
        let agent = built.permissions(Permissions::allow_all()).window(window).build().unwrap();
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "a").await.unwrap();
        chat.send("Write.").await.unwrap();
        assert_eq!(written.lock().unwrap().len(), 12);
        let last = last.lock().unwrap();
        let name = |it: &Value| it.get("name").cloned();
        let body: Value = serde_json::from_str(&last).unwrap();
        let list = body.get("messages").or_else(|| body.get("input")).unwrap().as_array().unwrap();
        let first = list.iter().find_map(|item| match wire {
            "anthropic" => item["content"]
                .as_array()?
                .iter()
                .find(|it| name(it).is_some())?
                .get("input")
                .cloned(),
            "responses" => serde_json::from_str(item.get("arguments")?.as_str()?).ok(),
            _ => {
                serde_json::from_str(item["tool_calls"][0]["function"]["arguments"].as_str()?).ok()
            }
        });
        let first = first.unwrap();
        let line = first["content"].as_str().unwrap();
        match signs {
            true => assert_eq!(line, content(0)),
            false => assert_eq!(line, LINE, "{wire}"),
        }
        assert!(last.contains(&content(11)), "{wire}: the newest stay");
    }
}

/// A summary of the oldest part leaves the calls after it as they are: their arguments can give way later, and those of
/// the calls in the part cannot.
#[tokio::test]
async fn arguments_behind_a_summary_can_be_cleared_and_those_in_it_cannot() {
    let journal = MemoryJournal::new();
    let model = writing(2, |_| reply().text("Done."));
    let mut chat = agent(model, &Arc::default()).open(&journal, "a").await.unwrap();
    chat.send("Write.").await.unwrap();
    let mut machine = Machine::new();
    for fact in journal.read("a", 0).await.unwrap().facts {
        machine.apply(&fact.fact().unwrap()).unwrap();
    }
    // The messages: the user, and twice a call and its result, and the answer.
    let compacted = Fact::ContextCompacted {
        messages: 3,
        kept: vec![0],
        summary: Message::user("One file is written."),
        vendor: None,
        request: Box::default(),
        before: 9,
        after: 5,
    };
    machine.apply(&compacted).unwrap();
    let cleared = |message: u64| Fact::ContextCleared {
        results: Vec::new(),
        arguments: vec![ClearedArguments::new(message, 0, r#"{"path": "x"}"#)],
        before: 5,
        after: 1,
    };
    assert!(machine.apply(&cleared(1)).is_err(), "it is in the summary");
    machine.apply(&cleared(3)).unwrap();
    let sent = calls(machine.sent().messages().iter());
    assert_eq!((sent.len(), sent[0].arguments()), (1, r#"{"path": "x"}"#));
}
