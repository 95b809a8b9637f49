//! Cases whose cost must grow in proportion to their size. Each case is measured at a size and at twice that size. The
//! check fails if the ratio exceeds the limit of the case.

mod long;

use std::hint::black_box;

use futures_util::{StreamExt as _, stream};
use harness::wire::WIRES;
use harness::{
    Agent, Limits, Message, Provider, SideEffect, SideEffects, StreamEvent, Tool, Transcript,
    message::{Block, CallOutcome, ToolCall, ToolContent, ToolResult},
    policy::{Guardrails, Permissions},
    provider::{Accumulator, EventStream, Request, StopReason},
    secret::Secrets,
    tool::ToolLimits,
};
use serde_json::json;

use crate::{
    answers::{begin, complete, delta, end, secret, start},
    decode, encode, runtime,
};

mod parts;

/// The maximum ratio for twice the size.
const LINEAR: f64 = 2.2;

/// The maximum ratio for a case whose cost does not depend on the size.
const LEVEL: f64 = 1.25;

/// A case: its name, its smaller size, and the maximum ratio of the cost at twice that size to the cost at that size.
pub(crate) struct Growing {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) most: f64,
}

pub(crate) fn cases() -> Vec<Growing> {
    let mut cases = Vec::new();
    let mut case = |name: &str, size: usize, most: f64| {
        cases.push(Growing { name: format!("grow/{name}"), size, most });
    };
    case("secrets/many", 128, LINEAR);
    case("secrets/text", 128, LINEAR);
    case("secrets/between", 256, LINEAR);
    for wire in WIRES {
        case(&format!("calls/{wire}"), 512, LINEAR);
        case(&format!("woven/{wire}"), 512, LINEAR);
        case(&format!("braces/{wire}"), 2048, LINEAR);
        case(&format!("objects/{wire}"), 2048, LINEAR);
        case(&format!("bytes/{wire}"), 4096, LINEAR);
        case(&format!("pieces/{wire}"), 16_384, LINEAR);
        case(&format!("encode/{wire}"), 1024, LINEAR);
    }
    case("repeats/given", 256, LINEAR);
    case("repeats/same", 256, LINEAR);
    case("repeats/broken", 128, LINEAR);
    case("settle", 2048, LINEAR);
    case("run/read", 128, LINEAR);
    case("run/write", 128, LINEAR);
    case("run/write-first", 128, LINEAR);
    case("run/denied", 256, LINEAR);
    case("run/surplus", 256, LINEAR);
    case("run/braces", 512, LINEAR);
    case("kept/last", 1024, LEVEL);
    case("kept/all", 1024, LEVEL);
    case("ids", 128, LINEAR);
    for part in ["tools", "rules", "agents", "watchers", "trace"] {
        case(&format!("parts/{part}"), 128, LINEAR);
    }
    case("long/clear", 256, LINEAR);
    case("long/list", 256, LINEAR);
    case("long/open", 64, LINEAR);
    cases
}

/// A case about the memory after a turn: its name, the bytes of text, and the maximum memory for each byte of text,
/// after the turn (`held`) and at the peak (`peak`).
pub(crate) struct Holding {
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) held: f64,
    pub(crate) peak: f64,
}

pub(crate) fn holdings() -> Vec<Holding> {
    let mut cases = Vec::new();
    for wire in WIRES {
        for (what, held, peak) in [("result", 1.2, 3.5), ("chat", 1.2, 1.3)] {
            let name = format!("grow/hold/{what}/{wire}");
            cases.push(Holding { name, size: 1024 * 1024, held, peak });
        }
    }
    cases
}

/// Runs a case at this size. `case` is the name without `grow`, split at slashes.
pub(crate) fn run(case: &[&str], size: usize) {
    match case {
        // All secrets are added, and then one short text is searched.
        ["secrets", "many"] => {
            let values: Vec<String> = (0..size).map(secret).collect();
            count(|| {
                let secrets = values.iter().fold(Secrets::default(), Secrets::with);
                assert_eq!(secrets.hide(&values[size / 2]), "[secret]");
            });
        }
        // All secrets are added, and then a text that contains all of them is searched.
        ["secrets", "text"] => {
            let text: String =
                (0..size).map(|at| format!("{}{}, ", secret(at), "x".repeat(80))).collect();
            count(|| {
                let secrets = (0..size).map(secret).fold(Secrets::default(), Secrets::with);
                assert_eq!(secrets.hide(&text).matches("[secret]").count(), size);
            });
        }
        // After each added secret, a text is searched.
        ["secrets", "between"] => count(|| {
            let mut secrets = Secrets::default();
            for at in 0..size {
                secrets = secrets.with(secret(at));
                assert_eq!(secrets.hide(&secret(at)), "[secret]");
            }
        }),
        ["calls", wire] => {
            let body = calls(wire, size, &[r#"{"path""#, r#":"a/b"}"#], false);
            read(wire, &body, size);
        }
        // The deltas of all calls alternate.
        ["woven", wire] => {
            let body = calls(wire, size, &[r#"{"path""#, r#":"a/b"}"#], true);
            read(wire, &body, size);
        }
        // One call whose deltas all end with a brace.
        ["braces", wire] => {
            let mut deltas = vec!["{\"a\":[{}"];
            deltas.resize(size, ",{\"b\":{}}");
            deltas.push("]}");
            read(wire, &calls(wire, 1, &deltas, false), 1);
        }
        // One call whose arguments have `size` bytes. Each byte is a separate delta.
        ["bytes", wire] => {
            let json = text(size);
            let deltas: Vec<&str> = json.split_inclusive(|_| true).collect();
            read(wire, &calls(wire, 1, &deltas, false), 1);
        }
        // The arguments come in deltas of 4 KiB, and the stream comes in pieces of one byte.
        ["pieces", wire] => {
            let json = text(size);
            let deltas: Vec<&str> = (0..size)
                .step_by(4096)
                .filter_map(|at| json.get(at..size.min(at + 4096)))
                .collect();
            let body = calls(wire, 1, &deltas, false);
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            count(|| {
                let mut answer = Accumulator::default();
                crate::decode_pieces(wire, &pieces, |event| answer.push(&event).expect("it fits"));
                let message = answer.finish().expect("an answer").message.expect("a message");
                assert_eq!(message.calls().next().map(|call| call.arguments()), Some(&*json));
            });
        }
        // The arguments of one call are many objects, one after the other. Only the first object belongs to the call.
        ["objects", wire] => {
            let body = calls(wire, 1, &vec!["{}"; size], false);
            count(|| {
                let mut answer = Accumulator::default();
                decode(wire, body.as_bytes(), |event| answer.push(&event).expect("it fits"));
                black_box(answer.finish().expect("an answer"));
            });
        }
        ["encode", wire] => {
            let transcript = answered(size);
            let request = Request::new(&transcript).expect("a transcript that can be sent");
            count(|| drop(black_box(encode(wire, &request))));
        }
        ["repeats", how] => {
            let events = repeated(how, size);
            count(|| {
                let mut answer = Accumulator::default();
                for event in &events {
                    answer.push(event).expect("an event that fits");
                    if let StreamEvent::ToolCallEnd { block } = event {
                        black_box(answer.written_call(*block));
                    }
                }
                black_box(answer.finish().expect("an answer"));
            });
        }
        ["settle"] => {
            let mut transcript = Transcript::default();
            transcript.push(Message::user("Go.")).expect("a message that fits");
            let asked = (0..size).map(|at| Block::ToolCall(call(at)));
            transcript.push(Message::assistant(asked)).expect("a message that fits");
            count(|| transcript.settle());
        }
        ["run", how] => run_calls(how, size),
        ["kept", how] => keep(how, size),
        // Some servers use the same call ids in each answer.
        ["ids"] => {
            let mut called = call_events(0, "call_0", "look", &["{}".to_owned()]);
            called.push(completed(StopReason::ToolCalls));
            let provider = Asks(Box::new(move |request| {
                if request.messages().len() < 2 * size { called.clone() } else { done() }
            }));
            let agent = Agent::builder(provider)
                .tools([tool("look", SideEffect::Read)])
                .guardrails(Guardrails::none())
                .run_limits(Limits::unlimited())
                .build()
                .expect("an agent");
            let runtime = runtime();
            count(|| {
                runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
            });
        }
        ["hold", what, wire] => hold(what, wire, size),
        ["parts", part] => parts::run(part, size),
        ["long", what] if long::run(what, size) => {}
        _ => panic!("no case is called `{case:?}`"),
    }
}

fn count(mut run: impl FnMut()) {
    crate::count(&mut run);
}

fn call(at: usize) -> ToolCall {
    ToolCall::new(format!("call_{at}"), "look", format!(r#"{{"path":"file-{at}"}}"#))
}

/// Arguments with this number of bytes.
fn text(size: usize) -> String {
    format!("{{\"path\":\"{:x<1$}\"}}", "a {[b, c]} ", size - 11)
}

/// A conversation with this number of calls in one answer, and with their results.
fn answered(calls: usize) -> Transcript {
    let mut transcript = Transcript::default();
    let results = (0..calls).map(|at| {
        let text = ToolContent::Text(format!("line {at}\n"));
        Block::ToolResult(ToolResult::new(format!("call_{at}"), CallOutcome::Succeeded, [text]))
    });
    let said = [
        Message::user("Go."),
        Message::assistant((0..calls).map(|at| Block::ToolCall(call(at)))),
        Message::new(harness::message::Role::Tool, results),
    ];
    for message in said {
        transcript.push(message).expect("a message that fits");
    }
    transcript
}

/// Decodes an answer and collects its events.
fn read(wire: &str, body: &str, calls: usize) {
    count(|| {
        let mut answer = Accumulator::default();
        decode(wire, body.as_bytes(), |event| {
            answer.push(&event).expect("an event that fits");
            if let StreamEvent::ToolCallDelta { block, json } = &event
                && json.ends_with('}')
            {
                black_box(answer.written_call(*block));
            }
        });
        let message = answer.finish().expect("an answer").message.expect("a message");
        assert_eq!(message.calls().count(), calls);
    });
}

fn call_events(block: u32, id: &str, name: &str, deltas: &[String]) -> Vec<StreamEvent> {
    let (id, name) = (id.to_owned(), name.to_owned());
    let mut events = vec![StreamEvent::ToolCallStart { block, id, name }];
    let deltas = deltas.iter().cloned();
    events.extend(deltas.map(|json| StreamEvent::ToolCallDelta { block, json }));
    events.push(StreamEvent::ToolCallEnd { block });
    events
}

fn completed(stop: StopReason) -> StreamEvent {
    StreamEvent::Completed { stop, usage: Box::default() }
}

/// The events of the last answer of a run.
fn done() -> Vec<StreamEvent> {
    let text = StreamEvent::TextDelta { block: 0, text: "Done.".into() };
    vec![text, completed(StopReason::Complete)]
}

/// Repeated calls, as some gateways send them.
fn repeated(how: &str, size: usize) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for (at, block) in (0..size).zip(0_u32..) {
        let json = format!(r#"{{"path":"file-{at}"}}"#);
        match how {
            // Each call is sent twice with the same id.
            "given" => {
                let id = format!("call_{at}");
                for block in [2 * block, 2 * block + 1] {
                    events.extend(call_events(block, &id, "look", std::slice::from_ref(&json)));
                }
            }
            // Different calls have the same id.
            "same" => events.extend(call_events(block, "call", "look", &[json])),
            // Different calls have the same id, and their arguments are incomplete.
            _ => {
                let json = format!(r#"{{"path":"file-{at}"#);
                events.extend(call_events(block, "call", "look", &[json]));
            }
        }
    }
    events.push(completed(StopReason::ToolCalls));
    events
}

fn tool(name: &'static str, effect: SideEffect) -> Tool {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    Tool::new(name, "Looks.", schema, SideEffects::of(&[effect]), |_, _| {
        Box::pin(async { Ok("seen".into()) })
    })
}

/// A provider that answers with these events and records nothing.
struct Asks(Box<Answers>);

type Answers = dyn Fn(&Request<'_>) -> Vec<StreamEvent> + Send + Sync;

impl Provider for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn model(&self) -> &str {
        "asks"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        stream::iter((self.0)(&request).into_iter().map(Ok)).boxed()
    }
}

/// Measures a whole run with this number of calls in one answer.
fn run_calls(how: &str, size: usize) {
    let mut called = Vec::new();
    if how == "braces" {
        let mut deltas = vec![r#"{"path":"x","a":[{}"#.to_owned()];
        deltas.resize(size, r#",{"b":{}}"#.to_owned());
        deltas.push("]}".into());
        called = call_events(0, "call_0", "look", &deltas);
    } else {
        for (at, block) in (0..size).zip(0_u32..) {
            let name = match how {
                "write" => "write",
                "write-first" if at == 0 => "write",
                _ => "look",
            };
            let json = format!(r#"{{"path":"file-{at}"}}"#);
            called.extend(call_events(block, &format!("call_{at}"), name, &[json]));
        }
    }
    called.push(completed(StopReason::ToolCalls));
    let permissions = match how {
        "denied" => Permissions::default().deny("look", "It is not wanted."),
        _ => Permissions::default().allow("look").allow("write"),
    };
    let guardrails = match how {
        "surplus" => Guardrails::none().calls_per_turn(8),
        _ => Guardrails::none(),
    };
    let provider = Asks(Box::new(move |request| match request.messages().len() {
        1 => called.clone(),
        _ => done(),
    }));
    let agent = Agent::builder(provider)
        .tools([tool("look", SideEffect::Read), tool("write", SideEffect::Write)])
        .permissions(permissions)
        .guardrails(guardrails)
        .run_limits(Limits::unlimited())
        .build()
        .expect("an agent");
    let runtime = runtime();
    count(|| {
        runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
    });
}

/// Measures some turns after this number of messages. The replies of the turns are kept.
fn keep(how: &str, size: usize) {
    let agent = Agent::builder(Asks(Box::new(|_| done()))).build().expect("an agent");
    let mut chat = agent.chat_from(crate::transcript(size));
    let runtime = runtime();
    let mut kept = vec![runtime.block_on(chat.send("And?").into_future()).expect("an answer")];
    count(|| {
        for _ in 0..20 {
            let reply = runtime.block_on(chat.send("And?").into_future()).expect("an answer");
            if how == "last" {
                kept.clear();
            }
            kept.push(reply);
        }
    });
}

/// Runs one turn in a conversation with `size` bytes of text. Then ends the process while the conversation is still in
/// memory.
fn hold(what: &str, wire: &str, size: usize) {
    let line = "It says \"the quick brown fox\" and jumps over the lazy dog, again and again.\n";
    let named = wire.to_owned();
    let called = [
        call_events(0, "call_0", "look", &["{}".to_owned()]),
        vec![completed(StopReason::ToolCalls)],
    ]
    .concat();
    let calls = what == "result";
    let provider = Asks(Box::new(move |request| {
        black_box(crate::encode_pieces(&named, request));
        if calls && request.messages().len() == 1 { called.clone() } else { done() }
    }));
    let schema = json!({"type": "object"});
    let reads = SideEffects::of(&[SideEffect::Read]);
    let look = Tool::new("look", "Looks.", schema, reads, move |_, _| {
        Box::pin(async move { Ok(line.repeat(size / line.len()).into()) })
    });
    let limits = ToolLimits::default().output(usize::MAX);
    let agent = Agent::builder(provider).tools([look]).tool_limits(limits);
    let agent = agent.build().expect("an agent");
    let mut said = Transcript::default();
    if !calls {
        for at in 0..2 * (size / 20_480) {
            let words = line.repeat(10_240 / line.len());
            let message = match at % 2 {
                0 => Message::user(words),
                _ => Message::assistant([Block::text(words)]),
            };
            said.push(message).expect("a message that fits");
        }
    }
    let mut chat = agent.chat_from(said);
    let reply = runtime().block_on(chat.send("Go.").into_future()).expect("an answer");
    black_box((&chat, &reply));
    std::process::exit(0);
}

/// The stream of an answer with this number of calls, whose arguments come in these pieces. If `woven` is `true`, the
/// pieces of all calls alternate. Otherwise, the calls follow each other.
fn calls(wire: &str, calls: usize, pieces: &[&str], woven: bool) -> String {
    let mut out = String::new();
    begin(&mut out, wire);
    let places: Vec<usize> = (0..calls).collect();
    let rounds: Vec<&[usize]> = match woven {
        true => vec![&places],
        false => places.chunks(1).collect(),
    };
    for round in rounds {
        for at in round {
            start(&mut out, wire, *at);
        }
        for piece in pieces {
            for at in round {
                delta(&mut out, wire, *at, piece);
            }
        }
        for at in round {
            end(&mut out, wire, *at, &pieces.concat());
        }
    }
    complete(&mut out, wire);
    out
}
