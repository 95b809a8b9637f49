//! Whatever is in a transcript, the request can be read: the body of each hostile conversation is
//! given to the strictest JSON readers of this machine.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use harness::{
    Block, CallOutcome, Message, ReasoningBlock, Role, StopReason, StreamEvent, TextBlock,
    ToolCall, ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{PromptCache, Request, Settings},
    testing::{ScriptedProvider, reply},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

/// Arguments as no tool takes them, or only some readers do.
fn arguments() -> Vec<String> {
    let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let lists = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    let mut all: Vec<String> = [
        "",
        " \n",
        "null",
        "true",
        "[23]",
        "\"{}\"",
        "NaN",
        "{",
        "{}",
        "{}{}",
        r#"{"city":"Oslo"}"#,
        r#"{"city":"x\ud83d y"}"#,
        r#"{"city":"\ude42\ud83d"}"#,
        r#"{"\udc00":1,"\ud800":2}"#,
        r#"{"a":"\\ud83d"}"#,
        r#"{"a":"\ud83d\ude42 \u0000 \u2028"}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":{"b":1,"\u0062":2}}"#,
        r#"{"\ud800":1,"\ud801":2}"#,
        r#"{"n":1e999}"#,
        r#"{"n":-1e-999}"#,
        r#"{"n":123456789012345678901234567890}"#,
        r#"{"n":NaN}"#,
        r#"{"n":Infinity}"#,
        r#"{"n":01}"#,
        r#"{"n":+1}"#,
        r#"{"n":.5}"#,
        r#"{'a':1}"#,
        r#"{"a":1,}"#,
        r#"{"a":1} // words"#,
        r#"{"a":1} and then"#,
        "\u{FEFF}{\"a\":1}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\u{7f}\u{10FFFF}\u{FEFF}\"}",
        "{\"a\":\"line\nbreak\"}",
        r#"{"a":"\x41"}"#,
        r#"{"a":"\u00g0"}"#,
        r#"{"a":"\u12"}"#,
    ]
    .map(str::to_owned)
    .into();
    for levels in [90, 99, 100, 101, 127, 128, 600, 100_000] {
        all.extend([deep(levels), lists(levels)]);
    }
    all.push(format!(r#"{{"n":{}}}"#, "9".repeat(300)));
    all.push(format!(r#"{{"n":{}}}"#, "9".repeat(5_000)));
    all.push(format!(r#"{{"n":0.{}}}"#, "1".repeat(5_000)));
    all
}

/// What a server, or somebody who has edited a file, may have left beside a block.
fn kept(wire: &str) -> Vec<VendorData> {
    let all = [
        r#"{"signature":"x\ud83d","signature":"y"}"#.to_owned(),
        r#"{"signature":"x\ud83dy"}"#.to_owned(),
        r#"{"type":"thinking","thinking":"\udc00","signature":"s"}"#.to_owned(),
        r#"{"type":"text","text":"other","id":"id","name":"n","input":{}}"#.to_owned(),
        r#"{"id":"fc_1","call_id":"x","arguments":"{}","type":"function_call","n":1e999}"#
            .to_owned(),
        r#"{"id":"msg_1","phase":"x\ud800"}"#.to_owned(),
        r#"{"type":"reasoning","encrypted_content":"e","summary":[{"text":"\ud83d"}]}"#.to_owned(),
        r#"{"field":"reasoning_content\ud83d","reasoning_details":[{"text":"\ud83d"}]}"#.to_owned(),
        r#"{"field":"content"}"#.to_owned(),
        r#"{"type":"custom_tool_call"}"#.to_owned(),
        "5".to_owned(),
        "\"{\"".to_owned(),
        "[]".to_owned(),
        format!(r#"{{"type":"x","a":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000)),
    ];
    all.map(|json| VendorData::new(wire, json).unwrap()).into()
}

/// Conversations each of which holds something that is hard to send.
fn hostile() -> Vec<(String, Transcript)> {
    let mut all = Vec::new();
    let mut say = |about: String, blocks: Vec<Block>| {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Weather?\u{0}\u{FFFF}")).unwrap();
        let message = Message::assistant(blocks);
        let results: Vec<Block> = message
            .calls()
            .map(|call| {
                let text = ToolContent::Text("the arguments are wrong \u{0}".to_owned());
                let json = ToolContent::Json(json!({"a": f64::MAX, "b": u64::MAX}));
                ToolResult::new(call.id(), CallOutcome::Failed, [text, json])
            })
            .map(Block::ToolResult)
            .collect();
        transcript.push(message).unwrap();
        if !results.is_empty() {
            transcript.push(Message::new(Role::Tool, results)).unwrap();
        }
        transcript.push(Message::user("And now?")).unwrap();
        all.push((about, transcript));
    };
    for arguments in arguments() {
        let about: String = arguments.chars().take(60).collect();
        say(about, vec![Block::ToolCall(ToolCall::new("c\u{0}1", "say\u{7f}", arguments))]);
    }
    for wire in ["anthropic", "responses", "chat"] {
        for data in kept(wire) {
            let about: String = format!("{wire} {}", data.json()).chars().take(80).collect();
            let data = Some(data);
            let call = ToolCall::new("c1", "say", r#""\ud83d""#).with_vendor(data.clone());
            say(
                about,
                vec![
                    Block::Reasoning(ReasoningBlock::new("hm \u{1}", data.clone())),
                    Block::Text(TextBlock::new("So \u{2}").with_vendor(data.clone())),
                    Block::Vendor(data.clone().unwrap()),
                    Block::ToolCall(call),
                ],
            );
        }
    }
    all
}

fn bodies() -> Vec<(String, Vec<u8>)> {
    let (model, settings) = ("m".to_owned(), Settings::default());
    let anthropic =
        anthropic::Options { settings: settings.clone(), ..anthropic::Options::new(&*model) };
    let responses = responses::Options { settings, ..responses::Options::new(model) };
    let replays = [
        chat::ThoughtReplay::SameField,
        chat::ThoughtReplay::Field("reasoning_content".into()),
        chat::ThoughtReplay::Details,
    ];
    let mut all = Vec::new();
    for (about, transcript) in hostile() {
        let request = Request::new(&transcript).unwrap().with_system(Some("Be \u{0} brief."));
        let body = anthropic::encode(&request, &anthropic).unwrap();
        all.push((format!("anthropic: {about}"), body));
        let body = responses::encode(&request, &responses).unwrap();
        all.push((format!("responses: {about}"), body));
        for thought in &replays {
            let options = chat::Options { thought: thought.clone(), ..chat::Options::new("m") };
            let body = chat::encode(&request, &options).unwrap();
            all.push((format!("chat {thought:?}: {about}"), body));
        }
    }
    all
}

/// Reads each file that is named on its command line, and the arguments in it, which are JSON in a
/// text on two wires. Names no member twice, takes no number that is none and no half of a character.
const PYTHON: &str = r#"
import json, math, sys
def pairs(members):
    names = [name for name, _ in members]
    assert len(names) == len(set(names)), "a member stands twice"
    return dict(members)
def constant(text): raise ValueError(text)
def number(text):
    value = float(text)
    assert math.isfinite(value), text
    return value
def read(text):
    value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
    look(value)
    return value
def look(value):
    if isinstance(value, str): value.encode("utf-8")
    elif isinstance(value, list):
        for item in value: look(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            name.encode("utf-8")
            look(item)
            if name == "arguments": assert isinstance(read(item), dict)
for name in sys.argv[1:]:
    try: read(open(name, "rb").read().decode("utf-8", "strict"))
    except Exception as err: print(name, repr(err)[:200])
"#;

const NODE: &str = r#"
const fs = require("fs");
const look = (value) => {
    if (typeof value === "string") {
        if (value.isWellFormed && !value.isWellFormed()) throw new Error("half a character");
    } else if (typeof value === "number") {
        if (!Number.isFinite(value)) throw new Error("no number");
    } else if (value && typeof value === "object") {
        for (const [name, item] of Object.entries(value)) {
            look(name);
            look(item);
            if (name === "arguments") look(JSON.parse(item));
        }
    }
};
for (const name of process.argv.slice(1)) {
    try {
        look(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(name))));
    } catch (err) { console.log(name, String(err).slice(0, 200)); }
}
"#;

/// What this reader has to say against the files; nothing if the reader is not here.
fn read_by(reader: &str, script: &[&str], files: &[String]) -> Option<String> {
    let command = |files: &[String]| {
        Command::new(reader).args(script).args(files).stdin(Stdio::null()).output()
    };
    let is_here =
        Command::new(reader).arg("--version").output().is_ok_and(|it| it.status.success());
    if !is_here {
        eprintln!("skipped: there is no `{reader}` here to read the bodies");
        return None;
    }
    let mut said = String::new();
    for files in files.chunks(200) {
        let output = command(files).unwrap();
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        assert!(!said.is_empty() || output.status.success(), "{reader}: {:?}", output.status);
    }
    Some(said)
}

#[test]
fn the_strictest_readers_take_every_body() {
    let folder = tempfile::tempdir().unwrap();
    let bodies = bodies();
    let mut files = Vec::new();
    for (at, (about, body)) in bodies.iter().enumerate() {
        // A reader of our own kind, on half of its usual depth.
        let value: Value =
            serde_json::from_slice(body).unwrap_or_else(|err| panic!("{about}: {err}"));
        assert!(depth(&value) <= 110, "{about}");
        let file = folder.path().join(format!("{at}.json"));
        fs::write(&file, body).unwrap();
        files.push(file.display().to_string());
    }
    let readers: [(&str, &[&str]); 3] =
        [("python3", &["-c", PYTHON]), ("node", &["-e", NODE]), ("jq", &["empty"])];
    let mut read = Vec::new();
    for (reader, script) in readers {
        if let Some(said) = read_by(reader, script, &files) {
            let about = |line: &str| {
                let number = line.split_once(".json").map_or("", |(file, _)| file);
                let number = number.rsplit('/').next()?.parse::<usize>().ok()?;
                Some(format!("{}: {line}", bodies.get(number)?.0))
            };
            let refused: Vec<String> = said.lines().filter_map(about).collect();
            assert!(said.is_empty(), "{reader} refuses:\n{}\n{said}", refused.join("\n"));
            read.push(reader);
        }
    }
    eprintln!("{} bodies were read by serde_json and {read:?}", bodies.len());
}

/// The readers are strict: what was sent before is refused by at least one of them.
#[test]
fn the_readers_refuse_what_some_servers_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = Path::join(folder.path(), name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let files = [
        write("half.json", r#"{"input":{"city":"x\ud83d y"}}"#),
        write("twice.json", r#"{"input":{"a":1,"a":2}}"#),
        write("large.json", r#"{"input":{"a":1e999}}"#),
        write("text.json", r#"{"arguments":"{\"a\":1} // words"}"#),
    ];
    if let Some(said) = read_by("python3", &["-c", PYTHON], &files) {
        assert_eq!(said.lines().count(), files.len(), "{said}");
    }
    if let Some(said) = read_by("node", &["-e", NODE], &files) {
        assert!(said.lines().count() >= 2, "{said}");
    }
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

fn sent(wire: &str, transcript: &Transcript) -> Value {
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
    serde_json::from_slice(&body.unwrap()).unwrap()
}

#[test]
fn a_call_goes_back_as_the_model_wrote_it_as_far_as_that_can_be_read() {
    let table = [
        (r#" {"city":"x\ud83d y"} "#, "{\"city\":\"x\u{FFFD} y\"}"),
        (r#"{"city":"\ud83d\ude42"}"#, r#"{"city":"\ud83d\ude42"}"#),
        (r#"{"a":1,"a":2}"#, "{}"),
        (r#"{"a":1e999}"#, "{}"),
        (r#"{"a":1} and"#, "{}"),
        ("[1]", "{}"),
        ("", "{}"),
    ];
    for (written, expected) in table {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Weather?")).unwrap();
        let call = ToolCall::new("c1", "weather", written);
        transcript.push(Message::assistant([Block::ToolCall(call)])).unwrap();
        transcript.settle();
        // The transcript itself keeps what was written.
        let kept = serde_json::to_string(&transcript).unwrap();
        let kept: Transcript = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept.messages()[1].calls().next().unwrap().arguments(), written);
        let expected_value: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(sent("anthropic", &kept)["messages"][1]["content"][0]["input"], expected_value);
        assert_eq!(sent("responses", &kept)["input"][1]["arguments"], expected);
        let call = &sent("chat", &kept)["messages"][1]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], expected);
    }
}

#[test]
fn what_was_refused_stays_in_the_transcript_and_is_not_sent_again() {
    use crate::decoded::{both_ways, named, unnamed};
    let chunk = |delta: Value, finish: Option<&str>| json!({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let message = |part: Value| {
        json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "message", "id": "msg_1", "content": [part]}})
    };
    // The wire, the answer, and what of it is sent: a refusal in words is an answer like others.
    let table = [
        (
            "anthropic",
            named(&[
                json!({"type": "message_start", "message": {"id": "m"}}),
                json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": "First you take"}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}}),
                json!({"type": "message_stop"}),
            ]),
            None,
        ),
        (
            "responses",
            named(&[
                message(json!({"type": "output_text", "text": "First you take"})),
                json!({"type": "response.incomplete", "response": {"status": "incomplete",
                    "incomplete_details": {"reason": "content_filter"}}}),
            ]),
            None,
        ),
        (
            "responses",
            named(&[
                message(json!({"type": "refusal", "refusal": "I cannot."})),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ]),
            Some(json!({"type": "message", "role": "assistant", "status": "completed",
                "id": "msg_1", "content": [{"type": "refusal", "refusal": "I cannot."}]})),
        ),
        (
            "chat",
            unnamed(&[chunk(json!({"content": "First you take"}), Some("content_filter"))]),
            None,
        ),
        (
            "chat",
            unnamed(&[chunk(json!({"refusal": "I cannot."}), Some("stop"))]),
            Some(json!({"role": "assistant", "content": "I cannot."})),
        ),
    ];
    for (wire, body, expected) in table {
        let decoded = both_ways(wire, &body, Default::default());
        assert_eq!(decoded.stop(), StopReason::Refused, "{wire}");
        let events = decoded.events.into_iter();
        let events = events.filter(|event| !matches!(event, StreamEvent::Completed { .. }));
        let reply = events.fold(reply(), |reply, event| reply.event(event));
        let script = ScriptedProvider::new([reply.stop(StopReason::Refused)]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let agent = harness::Agent::builder(script).build().unwrap();
        let stopped = runtime.block_on(async { agent.run("How?").await }).unwrap_err();
        let mut transcript = stopped.transcript().clone();
        assert!(transcript.messages()[1].is_refused() && !stopped.text().is_empty());
        transcript.push(Message::user("And now?")).unwrap();
        let body = sent(wire, &transcript);
        let list = body[if wire == "responses" { "input" } else { "messages" }].as_array().unwrap();
        let between: Vec<&Value> = list[1..list.len() - 1].iter().collect();
        assert_eq!(between, expected.iter().collect::<Vec<_>>(), "{wire}");
    }
}
