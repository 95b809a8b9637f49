//! An answer is read the same in every form in which a server may write it: members in any order and with any
//! escapes, unknown members, numbers in other spellings, line ends of each kind, comments, lines and characters
//! split anywhere. The content is generated before it is written, so that no decoder is needed to know it.
//!
//! `HARNESS_WIRE_FORMS=200000 cargo test -p harness-tests wire_any_form`

use harness::{StopReason, message::Block};

use crate::{
    decoded::{Decoded, both_ways, call, read, unusual},
    setting,
};

/// JSON as it is to be written. A text is made of the units of UTF-16, of which any may stand alone.
#[derive(Clone, Debug)]
enum Json {
    Text(Vec<u16>),
    /// Written as it is.
    Raw(String),
    Count(u64),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

use Json::{Count, List, Object};

fn text(text: &str) -> Json {
    Json::Text(text.encode_utf16().collect())
}

fn raw(json: &str) -> Json {
    Json::Raw(json.to_owned())
}

/// What an answer says.
#[derive(Debug, Default)]
struct Said {
    thinking: String,
    words: String,
    calls: Vec<(String, String, String)>,
    usage: (u64, u64),
}

const CHARS: [char; 24] = [
    'a',
    'b',
    ' ',
    '"',
    '\\',
    '/',
    '\n',
    '\r',
    '\t',
    '\0',
    '\u{8}',
    '\u{c}',
    '\u{1f}',
    '\u{7f}',
    'é',
    'u',
    '{',
    '\u{2028}',
    '\u{feff}',
    '\u{fffd}',
    '漢',
    '😀',
    '\u{10ffff}',
    '𝄞',
];

/// Members that no wire knows.
const UNKNOWN: [&str; 12] = [
    r#""x""#,
    "null",
    "true",
    "-1.5e+3",
    "123456789012345678901234567890",
    "[]",
    "{}",
    r#"[1,{"type":"error","choices":[{"delta":{"content":"no"}}]}]"#,
    r#"{"type":"error","error":{"message":"no"},"index":7,"text":"no","\"":[["\ud83d"]]}"#,
    r#""\u0000\ud83d""#,
    r#"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"#,
    r#"{"a":1,"a":2,"\u0061":3}"#,
];

/// Writes answers, in forms that a seed says.
struct Writer {
    dice: fastrand::Rng,
    /// How odd this one is: at 0 everything is plain.
    odd: u32,
}

impl Writer {
    fn sometimes(&mut self, of: u32) -> bool {
        self.dice.u32(..of) < self.odd
    }

    fn words(&mut self, most: usize) -> String {
        (0..self.dice.usize(..=most)).map(|_| CHARS[self.dice.usize(..CHARS.len())]).collect()
    }

    /// The text in pieces, which may be empty and cut a character in two.
    fn pieces(&mut self, text: &str) -> Vec<Json> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let (mut out, mut rest) = (Vec::new(), units.as_slice());
        while !rest.is_empty() {
            let mut length = self.dice.usize(..=rest.len().min(4));
            let is_cut = |length: usize| {
                length > 0 && (0xdc00..0xe000).contains(rest.get(length).unwrap_or(&0))
            };
            while is_cut(length) && self.odd == 0 {
                length += 1;
            }
            let (piece, behind) = rest.split_at(length);
            out.push(Json::Text(piece.to_vec()));
            rest = behind;
        }
        out
    }

    fn space(&mut self, out: &mut String) {
        if self.sometimes(20) {
            out.push_str([" ", "  ", "\t", " \t "][self.dice.usize(..4)]);
        }
    }

    fn string(&mut self, units: &[u16], out: &mut String) {
        out.push('"');
        for char in char::decode_utf16(units.iter().copied()) {
            match char {
                Err(half) => out.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
                Ok(char) if self.sometimes(12) => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        match self.dice.bool() {
                            true => out.push_str(&format!("\\u{unit:04x}")),
                            false => out.push_str(&format!("\\u{unit:04X}")),
                        }
                    }
                }
                Ok(char) => match char {
                    '"' | '\\' => out.extend(['\\', char]),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    '/' if self.dice.bool() => out.push_str("\\/"),
                    ..' ' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
                    char => out.push(char),
                },
            }
        }
        out.push('"');
    }

    fn json(&mut self, json: &Json, out: &mut String) {
        self.space(out);
        match json {
            Json::Text(units) => self.string(units, out),
            Json::Raw(json) => out.push_str(json),
            Count(count) if self.sometimes(12) => out.push_str(&match self.dice.u8(..4) {
                0 => format!("{count}.0"),
                1 => format!("{count}e0"),
                2 => format!("{count}.00E+0"),
                _ => format!("\"{count}\""),
            }),
            Count(count) => out.push_str(&count.to_string()),
            List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.json(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Object(members) => {
                let mut members: Vec<(&str, Json)> = members.clone();
                if self.sometimes(6) {
                    self.dice.shuffle(&mut members);
                }
                while self.sometimes(10) {
                    let value = UNKNOWN[self.dice.usize(..UNKNOWN.len())];
                    let name =
                        ["x", "zz", "type ", "", "\"", "Type", "deltas"][self.dice.usize(..7)];
                    members.insert(self.dice.usize(..=members.len()), (name, raw(value)));
                }
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    self.space(out);
                    self.string(&name.encode_utf16().collect::<Vec<_>>(), out);
                    self.space(out);
                    out.push(':');
                    self.json(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }

    fn line(&mut self, line: &str, end: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(end.as_bytes());
    }

    /// The stream of these events.
    fn stream(&mut self, events: &[Json]) -> Vec<u8> {
        let mut out = Vec::new();
        if self.sometimes(4) {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        for event in events {
            let end = match self.sometimes(6) {
                true => ["\r\n", "\r"][self.dice.usize(..2)],
                false => "\n",
            };
            let mut json = String::new();
            self.json(event, &mut json);
            let kind = match event {
                Object(members) => members.iter().find(|(name, _)| *name == "type"),
                _ => None,
            };
            let mut lines = Vec::new();
            if let Some((_, Json::Text(kind))) = kind.filter(|_| !self.sometimes(4)) {
                lines.push(format!("event: {}", String::from_utf16_lossy(kind)));
            } else if self.sometimes(6) {
                lines.push("event: message_stop".to_owned());
            }
            // Between two tokens the data may go on in another line.
            let splits = ["\",\"", "},{", "\":{"].iter().find_map(|at| {
                let found = json.find(at).filter(|_| event_is_plain(&json))?;
                Some(
                    found
                        + if at.starts_with('"') {
                            2
                        } else {
                            1 + usize::from(at.starts_with('}'))
                        },
                )
            });
            match splits.filter(|_| self.sometimes(5)) {
                Some(at) => {
                    lines.push(format!("data: {}", &json[..at]));
                    lines.push(format!("data:{}", &json[at..]));
                }
                None if self.sometimes(5) => lines.push(format!("data:{json}")),
                None => lines.push(format!("data: {json}")),
            }
            if self.sometimes(8) {
                let more = [": still here", "id: 7", "retry: 10", ":", "nothing", "x: data: {"];
                let more = more[self.dice.usize(..more.len())].to_owned();
                lines.insert(self.dice.usize(..=lines.len()), more);
            }
            for line in lines {
                self.line(&line, end, &mut out);
            }
            self.line("", end, &mut out);
            if self.sometimes(10) {
                self.line(": a comment", end, &mut out);
                self.line("", end, &mut out);
            }
        }
        out
    }

    fn said(&mut self) -> Said {
        let ids = ["call_1", "toolu_é", "c\"3"];
        let arguments = [
            "{}",
            r#"{"a":1}"#,
            r#"{"q":"\ud83d\ude00 \"x\" \\ \u0000","l":[1,2.50,1e3,-0],"n":{"m":null}}"#,
            "{\"é😀\":\"漢\",\"b\":{}}",
            "{ \"a\" : [ ] }",
        ];
        let calls = ids.iter().take(self.dice.usize(..=3)).map(|id| {
            let arguments = arguments[self.dice.usize(..arguments.len())];
            let name = ["look", "say"][self.dice.usize(..2)];
            ((*id).to_owned(), name.to_owned(), arguments.to_owned())
        });
        let calls = calls.collect();
        let usage = (self.dice.u64(..1000), self.dice.u64(1..1000));
        Said { thinking: self.words(12), words: self.words(40), calls, usage }
    }
}

/// Whether no text of it holds what could be taken for tokens.
fn event_is_plain(json: &str) -> bool {
    !json.contains('\\') && !json.contains("[[")
}

fn anthropic(said: &Said, to: &mut Writer) -> Vec<Json> {
    let kind = |kind: &str| ("type", text(kind));
    let start = |index: u64, block: Vec<(&'static str, Json)>| {
        Object(vec![
            kind("content_block_start"),
            ("index", Count(index)),
            ("content_block", Object(block)),
        ])
    };
    let delta = |index: u64, of: &str, name: &'static str, piece: Json| {
        let delta = Object(vec![kind(of), (name, piece)]);
        Object(vec![kind("content_block_delta"), ("index", Count(index)), ("delta", delta)])
    };
    let stop = |index: u64| Object(vec![kind("content_block_stop"), ("index", Count(index))]);
    let usage = Object(vec![("input_tokens", Count(said.usage.0)), ("output_tokens", Count(1))]);
    let message = vec![
        ("id", text("msg_1")),
        kind("message"),
        ("content", List(Vec::new())),
        ("stop_reason", raw("null")),
        ("usage", usage),
    ];
    let mut events = vec![Object(vec![kind("message_start"), ("message", Object(message))])];
    let thinking = vec![kind("thinking"), ("thinking", text("")), ("signature", text(""))];
    events.push(start(0, thinking));
    let pieces = to.pieces(&said.thinking).into_iter();
    events.extend(pieces.map(|piece| delta(0, "thinking_delta", "thinking", piece)));
    events.push(delta(0, "signature_delta", "signature", text("sig")));
    events.push(stop(0));
    events.push(Object(vec![kind("ping")]));
    events.push(start(1, vec![kind("text"), ("text", text(""))]));
    let pieces = to.pieces(&said.words).into_iter();
    events.extend(pieces.map(|piece| delta(1, "text_delta", "text", piece)));
    events.push(stop(1));
    for ((id, name, arguments), index) in said.calls.iter().zip(2..) {
        let block =
            vec![kind("tool_use"), ("id", text(id)), ("name", text(name)), ("input", raw("{}"))];
        events.push(start(index, block));
        let pieces = to.pieces(arguments).into_iter();
        events.extend(pieces.map(|piece| delta(index, "input_json_delta", "partial_json", piece)));
        events.push(stop(index));
    }
    let reason = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = Object(vec![("stop_reason", text(reason)), ("stop_sequence", raw("null"))]);
    let usage = Object(vec![("output_tokens", Count(said.usage.1))]);
    events.push(Object(vec![kind("message_delta"), ("delta", delta), ("usage", usage)]));
    events.push(Object(vec![kind("message_stop")]));
    events
}

fn responses(said: &Said, to: &mut Writer) -> Vec<Json> {
    let kind = |kind: &str| ("type", text(kind));
    let mut events = Vec::new();
    let mut number = 0;
    let mut push = |of: &str, mut members: Vec<(&'static str, Json)>| {
        number += 1;
        let mut all = vec![kind(of), ("sequence_number", Count(number))];
        all.append(&mut members);
        events.push(Object(all));
    };
    let response = vec![("id", text("resp_1")), ("status", text("in_progress"))];
    push("response.created", vec![("response", Object(response.clone()))]);
    push("response.in_progress", vec![("response", Object(response))]);
    let at = |index: u64, item: Vec<(&'static str, Json)>| {
        vec![("output_index", Count(index)), ("item", Object(item))]
    };
    let place = |index: u64| {
        vec![("item_id", text("it")), ("output_index", Count(index)), ("content_index", Count(0))]
    };
    let item = |of: &str| vec![("id", text("it")), kind(of)];
    push("response.output_item.added", at(0, item("reasoning")));
    for piece in to.pieces(&said.thinking) {
        let members = vec![
            ("item_id", text("it")),
            ("output_index", Count(0)),
            ("summary_index", Count(0)),
            ("delta", piece),
        ];
        push("response.reasoning_summary_text.delta", members);
    }
    let summary = Object(vec![kind("summary_text"), ("text", text(&said.thinking))]);
    let mut whole = item("reasoning");
    whole.extend([("summary", List(vec![summary])), ("encrypted_content", text("e"))]);
    push("response.output_item.done", at(0, whole));
    push("response.output_item.added", at(1, item("message")));
    for piece in to.pieces(&said.words) {
        push("response.output_text.delta", [place(1), vec![("delta", piece)]].concat());
    }
    push("response.output_text.done", [place(1), vec![("text", text(&said.words))]].concat());
    let part = Object(vec![kind("output_text"), ("text", text(&said.words))]);
    push(
        "response.output_item.done",
        at(1, [item("message"), vec![("content", List(vec![part]))]].concat()),
    );
    for ((id, name, arguments), index) in said.calls.iter().zip(2..) {
        let of = |arguments: &str| {
            let more =
                vec![("call_id", text(id)), ("name", text(name)), ("arguments", text(arguments))];
            at(index, [item("function_call"), more].concat())
        };
        push("response.output_item.added", of(""));
        for piece in to.pieces(arguments) {
            let members = [place(index), vec![("delta", piece)]].concat();
            push("response.function_call_arguments.delta", members);
        }
        let members = [place(index), vec![("arguments", text(arguments))]].concat();
        push("response.function_call_arguments.done", members);
        push("response.output_item.done", of(arguments));
    }
    let usage =
        Object(vec![("input_tokens", Count(said.usage.0)), ("output_tokens", Count(said.usage.1))]);
    let response =
        Object(vec![("id", text("resp_1")), ("status", text("completed")), ("usage", usage)]);
    push("response.completed", vec![("response", response)]);
    events
}

fn chat(said: &Said, to: &mut Writer) -> Vec<Json> {
    let chunk = |delta: Vec<(&'static str, Json)>, finish: Json| {
        let choice = Object(vec![
            ("index", Count(0)),
            ("delta", Object(delta)),
            ("logprobs", raw("null")),
            ("finish_reason", finish),
        ]);
        Object(vec![
            ("id", text("c-1")),
            ("object", text("chat.completion.chunk")),
            ("created", Count(7)),
            ("model", text("m")),
            ("choices", List(vec![choice])),
            ("usage", raw("null")),
        ])
    };
    let mut events =
        vec![chunk(vec![("role", text("assistant")), ("content", text(""))], raw("null"))];
    let pieces = to.pieces(&said.thinking).into_iter();
    events.extend(pieces.map(|piece| chunk(vec![("reasoning_content", piece)], raw("null"))));
    let pieces = to.pieces(&said.words).into_iter();
    events.extend(pieces.map(|piece| chunk(vec![("content", piece)], raw("null"))));
    // The pieces of several calls come as they come.
    let mut calls: Vec<Vec<Json>> = Vec::new();
    for ((id, name, arguments), index) in said.calls.iter().zip(0..) {
        let function = Object(vec![("name", text(name)), ("arguments", text(""))]);
        let mut all = vec![Object(vec![
            ("index", Count(index)),
            ("id", text(id)),
            ("type", text("function")),
            ("function", function),
        ])];
        for piece in to.pieces(arguments) {
            let function = Object(vec![("arguments", piece)]);
            all.push(Object(vec![("index", Count(index)), ("function", function)]));
        }
        all.reverse();
        calls.push(all);
    }
    let mut first = 0;
    while calls.iter().any(|call| !call.is_empty()) {
        let at = match to.odd {
            0 => calls.iter().position(|call| !call.is_empty()).unwrap(),
            _ => to.dice.usize(..calls.len()),
        };
        // They begin in their order.
        if at > first {
            continue;
        }
        let several = 1 + to.dice.usize(..2);
        let mut pieces = Vec::new();
        for _ in 0..several {
            pieces.extend(calls[at].pop());
        }
        first = first.max(at + 1);
        if !pieces.is_empty() {
            events.push(chunk(vec![("tool_calls", List(pieces))], raw("null")));
        }
    }
    let reason = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    events.push(chunk(Vec::new(), text(reason)));
    let usage = Object(vec![
        ("prompt_tokens", Count(said.usage.0)),
        ("completion_tokens", Count(said.usage.1)),
    ]);
    events.push(Object(vec![("id", text("c-1")), ("choices", List(Vec::new())), ("usage", usage)]));
    events
}

/// Asserts that an answer was read as it was said.
fn assert_read(decoded: &Decoded, said: &Said, about: &dyn Fn() -> String) {
    assert!(decoded.end.is_ok(), "{:?}: {}", decoded.end, about());
    assert_eq!(decoded.reasoning(), said.thinking, "{}", about());
    assert_eq!(decoded.text(), said.words, "{}", about());
    let calls: Vec<_> =
        said.calls.iter().map(|(id, name, arguments)| call(id, name, arguments)).collect();
    assert_eq!(decoded.calls(), calls, "{}", about());
    let stop = if calls.is_empty() { StopReason::Complete } else { StopReason::ToolCalls };
    assert_eq!(decoded.stop(), stop, "{}", about());
    let usage = decoded.usage();
    let usage = (usage.input.unwrap_or_default(), usage.output.unwrap_or_default());
    assert_eq!(usage, said.usage, "{}", about());
    let answer = decoded.answer();
    let blocks = answer.message.iter().flat_map(|message| message.blocks());
    let words: String = blocks
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.text()),
            _ => None,
        })
        .collect();
    // Words that are only white space are kept only if something is to go back with them.
    if !said.words.trim().is_empty() {
        assert_eq!(words, said.words, "{}", about());
    }
}

/// Changes something of an event, at whatever depth.
fn change(json: &mut Json, dice: &mut fastrand::Rng) {
    const VALUES: [&str; 22] = [
        "null",
        "true",
        "0",
        "1",
        "-0",
        "-1",
        "0.0",
        "1e3",
        "1e400",
        "18446744073709551615",
        "18446744073709551616",
        "\"\"",
        "\"a\"",
        "\"0\"",
        "\"error\"",
        "\"\\ud83d\"",
        "[]",
        "{}",
        "[1,\"a\",{\"text\":\"b\"}]",
        "{\"text\":\"b\",\"type\":\"text\"}",
        "[{\"index\":1}]",
        "tru",
    ];
    let any = |dice: &mut fastrand::Rng| raw(VALUES[dice.usize(..VALUES.len())]);
    match json {
        List(items) if !items.is_empty() && dice.u8(..4) > 0 => {
            let at = dice.usize(..items.len());
            match dice.u8(..8) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[at].clone()),
                _ => change(&mut items[at], dice),
            }
        }
        Object(members) if !members.is_empty() && dice.u8(..8) > 0 => {
            let at = dice.usize(..members.len());
            match dice.u8(..10) {
                0 => drop(members.remove(at)),
                1 => members.push(members[at].clone()),
                2 => members.insert(0, (members[at].0, any(dice))),
                3 => {
                    const NAMES: [&str; 24] = [
                        "type",
                        "index",
                        "delta",
                        "error",
                        "usage",
                        "text",
                        "content",
                        "message",
                        "id",
                        "object",
                        "detail",
                        "x_groq",
                        "refusal",
                        "annotations",
                        "tool_calls",
                        "custom",
                        "function_call",
                        "reasoning",
                        "item",
                        "response",
                        "status",
                        "output",
                        "citation",
                        "stop_reason",
                    ];
                    let at = dice.usize(..=members.len());
                    members.insert(at, (NAMES[dice.usize(..NAMES.len())], any(dice)));
                }
                _ => change(&mut members[at].1, dice),
            }
        }
        _ => *json = any(dice),
    }
}

#[test]
fn whatever_is_changed_of_an_answer_is_read_as_serde_reads_it() {
    let rounds = setting("HARNESS_WIRE_FORMS", 250);
    let first = setting("HARNESS_WIRE_SEED", 0);
    for seed in first..first + rounds {
        let dice = fastrand::Rng::with_seed(seed as u64);
        let mut to = Writer { dice, odd: (seed % 5 == 0).into() };
        let said = to.said();
        let (wire, mut events) = match seed % 3 {
            0 => ("anthropic", anthropic(&said, &mut to)),
            1 => ("responses", responses(&said, &mut to)),
            _ => ("chat", chat(&said, &mut to)),
        };
        for _ in 0..to.dice.usize(1..4) {
            let at = to.dice.usize(..events.len());
            match to.dice.u8(..12) {
                0 => drop(events.remove(at)),
                1 => events.insert(to.dice.usize(..=at), events[at].clone()),
                2 => events.swap(at, 0),
                _ => change(&mut events[at], &mut to.dice),
            }
            if events.is_empty() {
                break;
            }
        }
        let body = to.stream(&events);
        let decoded = read(wire, &[&body], Default::default());
        let by_serde = read(wire, &[&unusual(&body)], Default::default());
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        let cut = read(wire, &bytes, Default::default());
        let about = || format!("seed {seed}, {wire}:\n{}", String::from_utf8_lossy(&body));
        assert_eq!(decoded.said(), by_serde.said(), "{}", about());
        assert_eq!(format!("{decoded:?}"), format!("{cut:?}"), "{}", about());
    }
}

#[test]
fn an_answer_says_the_same_in_whatever_form_it_is_written() {
    let rounds = setting("HARNESS_WIRE_FORMS", 500);
    let first = setting("HARNESS_WIRE_SEED", 0);
    for seed in first..first + rounds {
        let dice = fastrand::Rng::with_seed(seed as u64);
        let mut to = Writer { dice, odd: u32::try_from(seed % 3).unwrap() };
        let said = to.said();
        let (wire, events) = match seed % 4 {
            0 => ("anthropic", anthropic(&said, &mut to)),
            1 => ("responses", responses(&said, &mut to)),
            _ => ("chat", chat(&said, &mut to)),
        };
        let mut body = to.stream(&events);
        if wire == "chat" {
            body.extend_from_slice(b"data: [DONE]\n\n");
        }
        let mut pieces = Vec::new();
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            let most = [1, 7, 60, 100_000][to.dice.usize(..4)];
            let (piece, behind) = rest.split_at(to.dice.usize(1..=rest.len().min(most)));
            pieces.push(piece);
            rest = behind;
        }
        let about = || format!("seed {seed}, {wire}:\n{}", String::from_utf8_lossy(&body));
        assert_read(&read(wire, &pieces, Default::default()), &said, &about);
        assert_read(&read(wire, &[&body], Default::default()), &said, &about);
    }
}

/// Of what is kept as it came, the vendor gets both.
#[test]
fn of_a_member_that_stands_twice_the_last_one_counts() {
    let call = r#""name":"no","id":"no","call_id":"no","name":"look","id":"c","call_id":"c""#;
    let bodies = [
        (
            "anthropic",
            format!(
                r#"data: {{"type":"content_block_start","index":0,"content_block":{{"type":"text","input":{{"no":1}},"input":{{"a":1}},"type":"tool_use",{call}}}}}

data: {{"type":"message_stop"}}

"#
            ),
        ),
        (
            "responses",
            format!(
                r#"data: {{"type":"response.output_item.done","output_index":0,"item":{{"type":"message","arguments":"no","arguments":"{{\"a\":1}}","type":"function_call",{call}}}}}

data: {{"type":"response.completed","response":{{"status":"completed"}}}}

"#
            ),
        ),
    ];
    for (wire, body) in bodies {
        let decoded = both_ways(wire, &body, Default::default());
        assert_eq!(decoded.calls(), [crate::decoded::call("c", "look", r#"{"a":1}"#)], "{wire}");
    }
}
