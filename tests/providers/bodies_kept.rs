//! Plans of messages that are used in ways they were not made for, and a server that reads exactly
//! as many bytes as announced.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, Block, CallOutcome, CancellationToken, Link, Media, Message, ReasoningBlock, Role,
    TextBlock, ToolCall, ToolContent, ToolResult, Transcript,
    message::VendorData,
    provider::{EncodedPrefix, Request, Settings},
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::wire_providers::{WIRES, provider};

type Random = fastrand::Rng;

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

fn size(random: &mut Random, large: bool) -> usize {
    match random.u32(..100) {
        0..40 => pick(random, &[0, 1, 2, 5, 63, 64, 65]),
        40..85 => pick(random, &[120, 126, 127, 128, 129, 130, 131, 191, 192, 255, 256, 257]),
        85..97 => random.usize(256..5_000),
        97..99 if large => pick(random, &[16_384, 32_768, 65_536]) + random.usize(..400) - 200,
        _ if large => pick(random, &[65_536, 200_000, 1_048_576]),
        _ => random.usize(5_000..9_000),
    }
}

/// Words that no one trims, of about this many bytes.
fn words_of(random: &mut Random, size: usize) -> String {
    let mut text = format!("<{:x}", random.u32(..));
    let kind = random.u32(..6);
    let run = pick(random, &[7, 8, 9, 30, 61, 62, 63, 64, 65, 127, 500]);
    let escapes =
        ['"', '\\', '\n', '\t', '\r', '\u{8}', '\u{c}', '\0', '\u{1f}', '\u{7f}', '\u{2028}'];
    while text.len() < size {
        match kind {
            0 => text.push('x'),
            1 => text.push(pick(random, &escapes)),
            2 => text.push(pick(random, &['é', '€', '😀', '\u{10ffff}', '\u{fffd}'])),
            3 => {
                let room = size - text.len();
                text.push_str(&"y".repeat(run.min(room)));
                text.push(pick(random, &escapes));
            }
            4 => text.push(random.char('\0'..='\u{7f}')),
            _ => text.push(random.char(..)),
        }
    }
    text.push('>');
    text
}

fn words(random: &mut Random, large: bool) -> String {
    let size = size(random, large);
    if size == 0 {
        return pick(random, &["", " ", "\n\n"]).to_owned();
    }
    words_of(random, size)
}

fn arguments(random: &mut Random, large: bool) -> String {
    let text = words(random, large);
    let quoted = json!(text).to_string();
    match random.u32(..12) {
        0 => String::new(),
        1 => format!(
            "{}{{\"a\":{quoted}}}{}",
            " ".repeat(random.usize(..200)),
            "\n".repeat(random.usize(..200))
        ),
        2 => format!("{{\"a\":{quoted}"),
        3 => text,
        4 => format!("[{quoted}]"),
        5 => format!("{{\"a\":\"\\ud800{}\"}}", "z".repeat(random.usize(..300))),
        6 => format!("{{\"\\udc00\":{quoted},\"b\":\"\\ud83d\\ude00\\ud83d\"}}"),
        7 => format!("{{\"a\":{quoted}}}{{\"a\":{quoted}}}"),
        8 => format!("{{\"a\":{}1e400{}}}", "[".repeat(100), "]".repeat(100)),
        9 => format!(
            "{{\"a\":1,\"a\":{quoted},\"\\u0061\":{{\"é\":[{quoted},1.0,-0.0,12345678901234567890123]}}}}"
        ),
        10 => quoted,
        _ => json!({"a": text, "b": {"c": [text, null, 1]}}).to_string(),
    }
}

fn vendor(random: &mut Random, kind: &str, large: bool) -> Option<VendorData> {
    let text = words(random, large);
    let (wire, json) = match random.u32(..7) {
        0 => (
            "anthropic",
            match kind {
                "text" => json!({"citations": [{"type": "char_location", "cited_text": text}]}),
                "reasoning" => json!({"signature": text}),
                _ => json!({"caller": {"type": "direct", "id": text}}),
            },
        ),
        1 => (
            "responses",
            match kind {
                "text" => json!({"id": text, "phase": "commentary"}),
                "reasoning" => {
                    json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": text})
                }
                _ => json!({"id": text}),
            },
        ),
        2 => (
            "chat",
            json!({"field": "reasoning_content", "reasoning_details": [{"type": "reasoning.text", "text": text}]}),
        ),
        3 => (
            "chat",
            json!({"extra_content": {"google": {"thought_signature": text}}, "origin": "00"}),
        ),
        4 => (pick(random, &["anthropic", "responses", "chat"]), json!(text)),
        5 => ("elsewhere", json!({"x": text})),
        _ => return None,
    };
    let json = json.to_string();
    let json = if random.bool() { format!("  {json}\n ") } else { json };
    Some(VendorData::new(wire, json).unwrap())
}

fn media(random: &mut Random, large: bool) -> Media {
    let text = words(random, large);
    let media = match random.u32(..9) {
        0 => Media::from_bytes("image/png", [b"\x89PNG\r\n\x1a\n", text.as_bytes()].concat()),
        1 => Media::from_bytes("application/pdf", [b"%PDF-1.7", text.as_bytes()].concat()),
        2 => Media::from_bytes("audio/wav", [b"RIFF\0\0\0\0WAVE", text.as_bytes()].concat()),
        3 => Media::from_text("text/plain", text),
        4 => Media::from_url(format!("https://a.test/{text}")),
        5 => Media::from_file_id(pick(random, &["anthropic", "openai", "m"]), text),
        6 => Media::from_bytes("text/plain", text),
        7 => Media::from_text("application/json", json!({ "a": text }).to_string()),
        _ => Media::from_bytes("application/octet-stream", text),
    };
    match random.u32(..3) {
        0 => media.with_name(words(random, false)),
        1 => media.with_uri(words(random, false)),
        _ => media,
    }
}

fn file(random: &mut Random, large: bool) -> Block {
    let media = media(random, large);
    pick(random, &[Block::Image as fn(Media) -> Block, Block::Audio, Block::Document])(media)
}

fn content(random: &mut Random, large: bool, said: &mut Vec<String>) -> ToolContent {
    match random.u32(..8) {
        0..3 => {
            let text = words(random, large);
            said.push(text.clone());
            ToolContent::Text(text)
        }
        3 => ToolContent::Json(
            json!({"b": words(random, large), "a": [1.0, null, words(random, false)]}),
        ),
        4 => ToolContent::Image(media(random, large)),
        5 => ToolContent::Audio(media(random, large)),
        6 => ToolContent::Document(media(random, large)),
        _ => Link::new(words(random, large), words(random, false))
            .with_description(words(random, false))
            .into(),
    }
}

/// A conversation, and words that stand in each request with it.
fn conversation(random: &mut Random, large: bool) -> (Vec<Message>, Vec<Vec<String>>) {
    let mut all = vec![Message::user("Hello")];
    let mut said = vec![vec!["Hello".to_owned()]];
    for _ in 0..random.usize(1..5) {
        let mut now = Vec::new();
        let blocks: Vec<Block> = (0..random.usize(1..4))
            .map(|_| match random.u32(..4) {
                0 => file(random, large),
                _ => {
                    let text = words(random, large);
                    now.push(text.clone());
                    Block::text(text)
                }
            })
            .collect();
        all.push(Message::new(Role::User, blocks));
        said.push(now);
        let mut now = Vec::new();
        let mut ids = Vec::new();
        let shared = vendor(random, "text", large);
        let mut blocks = Vec::new();
        for n in 0..random.usize(1..6) {
            blocks.push(match random.u32(..10) {
                0..3 => {
                    let text = words(random, large);
                    now.push(text.clone());
                    let data =
                        if random.bool() { shared.clone() } else { vendor(random, "text", large) };
                    Block::Text(TextBlock::new(text).with_vendor(data))
                }
                3..5 => Block::Reasoning(ReasoningBlock::new(
                    words(random, large),
                    vendor(random, "reasoning", large),
                )),
                5..8 => {
                    let id = format!("call_{}_{n}", all.len());
                    ids.push(id.clone());
                    let data = vendor(random, "call", large);
                    Block::ToolCall(
                        ToolCall::new(id, "look", arguments(random, large)).with_vendor(data),
                    )
                }
                _ => {
                    let text = words(random, large);
                    let (wire, json) = pick(
                        random,
                        &[
                            ("anthropic", "redacted_thinking"),
                            ("responses", "web_search_call"),
                            ("chat", "x"),
                            ("elsewhere", "y"),
                        ],
                    );
                    let json =
                        json!({"type": json, "id": "ws_1", "status": "completed", "data": text})
                            .to_string();
                    Block::Vendor(VendorData::new(wire, json).unwrap())
                }
            });
        }
        all.push(Message::assistant(blocks));
        said.push(now);
        if !ids.is_empty() {
            let mut now = Vec::new();
            let results: Vec<Block> = ids
                .into_iter()
                .map(|id| {
                    let outcome = pick(
                        random,
                        &[CallOutcome::Succeeded, CallOutcome::Failed, CallOutcome::InDoubt],
                    );
                    let content: Vec<_> =
                        (0..random.usize(..4)).map(|_| content(random, large, &mut now)).collect();
                    Block::ToolResult(ToolResult::new(id, outcome, content))
                })
                .collect();
            all.push(Message::new(Role::Tool, results));
            said.push(now);
        }
    }
    (all, said)
}

fn transcript(messages: &[Message]) -> Transcript {
    let mut transcript = Transcript::default();
    for message in messages {
        transcript.push(message.clone()).unwrap();
    }
    transcript
}

/// One of the ways in which a request can be written.
#[derive(Clone, Copy, Debug)]
struct Way {
    wire: u32,
    thinking: Option<bool>,
    other: u32,
    system: Option<&'static str>,
}

impl Way {
    fn any(random: &mut Random) -> Self {
        Self {
            wire: random.u32(..3),
            thinking: pick(random, &[None, Some(true), Some(false)]),
            other: random.u32(..12),
            system: pick(random, &[None, Some("Be brief."), Some(" ")]),
        }
    }

    fn encode(
        self,
        transcript: &Transcript,
        sent: Option<&EncodedPrefix>,
    ) -> Result<Vec<u8>, String> {
        let Ok(request) = Request::new(transcript) else { return Err("not sendable".into()) };
        let request = request.with_system(self.system).with_sent(sent);
        let settings = Settings { earlier_thinking: self.thinking, ..Settings::default() };
        let model = pick_model(self.other);
        let body = match self.wire {
            0 => anthropic::encode_pieces(
                &request,
                &anthropic::Options { settings, ..anthropic::Options::new(model.0) },
            ),
            1 => responses::encode_pieces(
                &request,
                &responses::Options { settings, ..responses::Options::new(model.1) },
            ),
            _ => chat::encode_pieces(
                &request,
                &chat::Options {
                    settings,
                    thought: match self.other % 4 {
                        0 => chat::ThoughtReplay::Off,
                        1 => chat::ThoughtReplay::SameField,
                        2 => chat::ThoughtReplay::Field("reasoning".into()),
                        _ => chat::ThoughtReplay::Details,
                    },
                    call_ids: if self.other.is_multiple_of(2) {
                        chat::CallIds::Nine
                    } else {
                        chat::CallIds::Plain
                    },
                    strict_turns: self.other.is_multiple_of(3),
                    ..chat::Options::new(model.1)
                },
            ),
        };
        let body = body.map_err(|err| err.to_string())?;
        let size = body.size();
        let body = body.into_bytes();
        assert_eq!(size, body.len(), "{self:?}");
        Ok(body)
    }
}

fn pick_model(other: u32) -> (&'static str, &'static str) {
    match other % 3 {
        0 => ("claude-sonnet-4-5", "gpt-4o"),
        1 => ("m", "m"),
        _ => ("claude-3-haiku-20240307", "gpt-5"),
    }
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}

fn stands_in(body: &[u8], said: &[String], what: &str) {
    let value: Value = serde_json::from_slice(body).unwrap_or_else(|err| panic!("{what}: {err}"));
    let mut found = Vec::new();
    texts(&value, &mut found);
    let body = std::str::from_utf8(body).unwrap();
    for text in said.iter().filter(|text| !text.trim().is_empty()) {
        let json = serde_json::to_string(text).unwrap();
        let start: String = text.chars().take(30).collect();
        assert!(
            found.iter().any(|it| it.contains(text.as_str())),
            "{what}: {} bytes {start:?}",
            text.len()
        );
        assert!(
            body.contains(&json[1..json.len() - 1]),
            "{what}: json of {} bytes {start:?}",
            text.len()
        );
    }
}

fn reread(message: &Message) -> Message {
    serde_json::from_str(&serde_json::to_string(message).unwrap()).unwrap()
}

#[test]
fn one_plan_serves_any_wire_and_any_conversation() {
    let (mut bodies, mut refused) = (0, 0);
    for seed in 0..24 {
        let random = &mut Random::with_seed(seed);
        let (all, said) = conversation(random, seed % 8 == 0);
        // One plan for everything: other wires, settings, shorter and longer conversations.
        let shared = EncodedPrefix::new();
        for _ in 0..6 {
            let way = Way::any(random);
            let at = random.usize(1..=all.len());
            let mut messages = all[..at].to_vec();
            match random.u32(..4) {
                0 => messages = messages.iter().map(reread).collect(),
                1 => {
                    let place = random.usize(..at);
                    if messages[place].role() == Role::User {
                        messages[place] = Message::user(words_of(random, 200));
                    }
                }
                _ => {}
            }
            let transcript = transcript(&messages);
            let anew = way.encode(&transcript, None);
            let kept = way.encode(&transcript, Some(&shared));
            assert!(
                anew == kept,
                "{seed}, {way:?}, {at}: {:?} {:?}",
                anew.as_ref().map(|b| b.len()),
                kept.as_ref().map(|b| b.len())
            );
        }
        for wire in 0..3 {
            let way = Way { wire, thinking: None, other: random.u32(..12), ..Way::any(random) };
            let way = Way { thinking: None, ..way };
            let sent = EncodedPrefix::new();
            let mut before: Option<Vec<u8>> = None;
            let mut so_far = Vec::new();
            for at in 1..=all.len() {
                so_far.extend(said[at - 1].iter().cloned());
                let transcript = transcript(&all[..at]);
                let anew = way.encode(&transcript, None);
                let kept = way.encode(&transcript, Some(&sent));
                assert!(
                    anew == kept,
                    "{seed}, {way:?}, {at}: {:?} {:?}",
                    anew.as_ref().map(|b| b.len()),
                    kept.as_ref().map(|b| b.len())
                );
                assert!(anew == way.encode(&transcript, Some(&sent)), "{seed}: again");
                let Ok(body) = anew else {
                    refused += 1;
                    continue;
                };
                bodies += 1;
                if at % 3 == 0 || at == all.len() {
                    stands_in(&body, &so_far, &format!("{seed}, {way:?}, {at}"));
                }
                if let Some(before) = &before {
                    assert!(
                        body.starts_with(before.strip_suffix(b"]}").unwrap()),
                        "{seed}, {way:?}, {at}: prefix"
                    );
                }
                before = Some(body);
            }
        }
    }
    assert!(bodies > refused);
}

/// Messages of the same id that compare as equal and are not written alike.
#[test]
fn a_plan_does_not_serve_messages_that_are_only_equal() {
    let call = Message::assistant([Block::ToolCall(ToolCall::new("a", "look", "{}"))]);
    let result = |content: ToolContent| {
        Message::new(
            Role::Tool,
            [Block::ToolResult(ToolResult::new("a", CallOutcome::Succeeded, [content]))],
        )
    };
    let (go, on) = (Message::user("Go."), Message::user("On."));
    for (one, other) in
        [(r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#), ("[0.0]", "[-0.0]"), ("[1]", "[1.0]")]
    {
        let first = result(ToolContent::Json(serde_json::from_str(one).unwrap()));
        let json = serde_json::to_string(&first).unwrap();
        let changed = json.replace(one, other);
        assert_ne!(json, changed);
        let second: Message = serde_json::from_str(&changed).unwrap();
        for wire in 0..3 {
            let way = Way { wire, thinking: None, other: 1, system: None };
            let sent = EncodedPrefix::new();
            let [first, second] = [&first, &second]
                .map(|result| transcript(&[go.clone(), call.clone(), result.clone(), on.clone()]));
            way.encode(&first, Some(&sent)).unwrap();
            assert!(
                way.encode(&second, Some(&sent)) == way.encode(&second, None),
                "{wire}: {one} {other}"
            );
        }
    }
}

/// A conversation that goes another way than the one whose plan is kept is refused as it is without a plan.
#[test]
fn what_is_refused_is_refused_also_with_a_plan() {
    let sound = Block::Audio(Media::from_bytes("audio/wav", b"RIFF\0\0\0\0WAVE"));
    let first = Message::new(Role::User, [Block::text("Hear:"), sound]);
    for wire in 0..3 {
        for says in
            [vec![Block::text("I hear.")], vec![Block::ToolCall(ToolCall::new("a", "look", "{}"))]]
        {
            let way = Way { wire, thinking: None, other: 1, system: None };
            let answer = Message::assistant(says);
            let mut long = vec![first.clone(), answer.clone()];
            if answer.calls().next().is_some() {
                long.push(Message::new(
                    Role::Tool,
                    [Block::ToolResult(ToolResult::new(
                        "a",
                        CallOutcome::Succeeded,
                        [ToolContent::from("ok")],
                    ))],
                ));
            }
            let short = transcript(&long);
            long.push(Message::user("And now?"));
            let long = transcript(&long);
            let sent = EncodedPrefix::new();
            let _ = way.encode(&long, Some(&sent));
            let (anew, kept) = (way.encode(&short, None), way.encode(&short, Some(&sent)));
            assert!(anew == kept, "{wire}: {anew:?} {kept:?}");
        }
    }
}

fn answer(wire: &str) -> Value {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    match wire {
        "anthropic" => {
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Noted."}], "usage": usage})
        }
        "responses" => {
            json!({"id": "r", "object": "response", "status": "completed", "model": "m", "usage": usage,
            "output": [{"type": "message", "id": "msg", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Noted.", "annotations": []}]}]})
        }
        _ => {
            json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Noted."}}]})
        }
    }
}

/// What a raw server saw: each body and the number of its connection.
type Seen = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

/// Reads exactly as many bytes as were announced and checks that nothing follows before it answers.
async fn serve(
    mut stream: TcpStream,
    number: usize,
    seen: Seen,
    wire: &'static str,
    act: fn(usize) -> Act,
) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("post "), "the connection is off by some bytes: {head:?}");
        assert!(!head.contains("transfer-encoding"));
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let more = tokio::time::timeout(Duration::from_millis(2), stream.read_u8()).await;
        assert!(more.is_err(), "more came than was announced: {more:?}");
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push((number, body));
            seen.len()
        };
        let (status, json) = match act(at) {
            Act::Say => ("200 OK", answer(wire)),
            Act::Refuse => ("529 Overloaded", json!({"error": {"message": "overloaded"}})),
            Act::Close => return,
        };
        let json = json.to_string();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n{json}",
            json.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

enum Act {
    Say,
    Refuse,
    Close,
}

async fn server(wire: &'static str, act: fn(usize) -> Act) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let all = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            number += 1;
            tokio::spawn(serve(stream, number, Arc::clone(&all), wire, act));
        }
    });
    (url, seen)
}

/// Words about the borders of a piece.
fn near_a_piece(random: &mut Random) -> String {
    let size = pick(random, &[100, 16_384, 32_768, 65_536]) + random.usize(..400);
    words_of(random, size - 50)
}

#[tokio::test]
async fn a_strict_server_reads_each_body_over_one_connection() {
    for wire in WIRES {
        let (url, seen) = server(wire, |at| if at == 1 { Act::Refuse } else { Act::Say }).await;
        let agent = Agent::builder(provider(wire, &url)).build().unwrap();
        let mut chat = agent.chat();
        let random = &mut Random::with_seed(3);
        let mut said = Vec::new();
        for turn in 0..4 {
            let text = match turn {
                0 => words_of(random, 200_000),
                _ => near_a_piece(random),
            };
            said.push(text.clone());
            let reply = chat.send(text).await.unwrap_or_else(|err| panic!("{wire}, {turn}: {err}"));
            assert_eq!(reply.text(), "Noted.");
            stands_in(&seen.lock().unwrap().last().unwrap().1, &said, wire);
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 4 + 1);
        assert!(seen[0].1 == seen[1].1, "{wire}: repeated");
        assert!(seen.iter().all(|(number, _)| *number == 1), "{wire}: one connection");
        for pair in seen.windows(2).skip(1) {
            let from = |body: &[u8]| {
                let name: &[u8] =
                    if wire == "responses" { b"\"input\":[" } else { b"\"messages\":[" };
                body.windows(name.len()).position(|it| it == name).unwrap()
            };
            let (one, two) = (&pair[0].1[from(&pair[0].1)..], &pair[1].1[from(&pair[1].1)..]);
            assert!(two.starts_with(one.strip_suffix(b"]}").unwrap()), "{wire}");
        }
    }
}

#[tokio::test]
async fn a_body_is_the_same_after_a_kept_connection_was_closed() {
    for wire in WIRES {
        // The second request is read whole, and its connection closed without an answer.
        let (url, seen) = server(wire, |at| if at == 2 { Act::Close } else { Act::Say }).await;
        let agent = Agent::builder(provider(wire, &url)).build().unwrap();
        let mut chat = agent.chat();
        let random = &mut Random::with_seed(5);
        let mut said = Vec::new();
        for _ in 0..3 {
            said.push(near_a_piece(random));
            chat.send(said.last().unwrap().as_str()).await.unwrap();
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 4, "{wire}");
        assert!(seen[1].1 == seen[2].1, "{wire}");
        assert_eq!([seen[1].0, seen[2].0], [1, 2]);
        stands_in(&seen[3].1, &said, wire);
    }
}

/// The same provider goes on after a request that was given up half way over a connection that it kept.
#[tokio::test]
async fn what_is_given_up_half_way_leaves_no_byte_for_the_next_request() {
    for wire in WIRES {
        let (url, seen) = server(wire, |_| Act::Say).await;
        let agent = Agent::builder(provider(wire, &url)).build().unwrap();
        let random = &mut Random::with_seed(9);
        let mut chat = agent.chat();
        chat.send("Hello").await.unwrap();
        for millis in [0, 3] {
            let token = CancellationToken::new();
            let stop = token.clone();
            let large = words_of(random, 1_000_000);
            let run = chat.send(large).cancel_with(token);
            let stops = async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                stop.cancel();
            };
            let _ = tokio::join!(run, stops);
            let text = near_a_piece(random);
            let mut other = agent.chat();
            assert_eq!(other.send(text.as_str()).await.unwrap().text(), "Noted.", "{wire}");
            stands_in(&seen.lock().unwrap().last().unwrap().1, &[text], wire);
        }
    }
}
