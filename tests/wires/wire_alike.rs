//! The library reads events of the common kinds in one pass, and `serde_json` reads the unusual
//! ones. Whatever a server sends, both must give the same events and the same kind of error, and so
//! must any split of the bytes.

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use crate::decoded::{both_ways, named, read, unnamed, unusual};

/// Texts that differ in all that a text can differ in.
const TEXTS: &[&str] = &[
    "The",
    " quick",
    "",
    " \"it\"",
    "\n\n",
    "ü",
    "\u{1F980}",
    "\\",
    " end",
    "a\r",
    "/\u{c}",
    "\t",
];

fn anthropic() -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [],
            "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
    ];
    let delta = |index: u8, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let texts = || TEXTS.iter();
    let think = |text| delta(0, json!({"type": "thinking_delta", "thinking": text}));
    events.extend(texts().map(think));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let block = json!({"type": "text", "text": ""});
    events.push(json!({"type": "content_block_start", "index": 1, "content_block": block}));
    events.extend(texts().map(|text| delta(1, json!({"type": "text_delta", "text": text}))));
    let block = json!({"type": "tool_use", "id": "call_1", "name": "say", "input": {}});
    events.push(json!({"type": "content_block_start", "index": 2, "content_block": block}));
    let argument = |json| delta(2, json!({"type": "input_json_delta", "partial_json": json}));
    events.extend(["{\"a\":", "[1,", "\"x\",", "2]", "}"].map(argument));
    events.push(json!({"type": "content_block_stop", "index": 2}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    named(&events)
}

fn responses() -> String {
    let item = |kind: &str| json!({"id": "item_1", "type": kind, "name": "say", "call_id": "c"});
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("reasoning")}),
    ];
    let mut number = 8;
    let mut delta = |kind: &str, output: u8, part: usize, text: &str| {
        number += 1;
        let padding = "aB3dE6".get(number % 5..).unwrap();
        json!({"type": kind, "sequence_number": number, "item_id": "item_1",
            "output_index": output, "content_index": part, "summary_index": part, "delta": text,
            "logprobs": [], "obfuscation": padding})
    };
    for (at, text) in TEXTS.iter().enumerate() {
        events.push(delta("response.reasoning_summary_text.delta", 0, at / 8, text));
    }
    let kind = "response.output_item.added";
    events.push(json!({"type": kind, "output_index": 1, "item": item("message")}));
    events.extend(TEXTS.iter().map(|text| delta("response.output_text.delta", 1, 0, text)));
    events.push(json!({"type": kind, "output_index": 2, "item": item("function_call")}));
    let argument = |json| delta("response.function_call_arguments.delta", 2, 0, json);
    events.extend(["{\"a\":", "[1,", "\"x\",", "2]", "}"].map(argument));
    events.push(json!({"type": "response.completed",
        "response": {"id": "resp_1", "status": "completed", "usage": {"output_tokens": 9}}}));
    named(&events)
}

fn chat() -> String {
    let mut created = 98;
    let mut chunk = |delta: Value, finish: Value| {
        created += 1;
        json!({"id": "c-1", "object": "chat.completion.chunk", "created": created, "model": "m",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
            "usage": null, "obfuscation": "x".repeat(created % 4)})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    for text in TEXTS {
        events.push(chunk(json!({"content": null, "reasoning_content": text}), Value::Null));
    }
    events.extend(TEXTS.iter().map(|text| chunk(json!({"content": text}), Value::Null)));
    for json in ["", "{\"a\":", "[1]", "}"] {
        let call = json!({"index": 0, "id": "call_1", "function": {"name": "say",
            "arguments": json}});
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
    }
    events.push(chunk(json!({}), json!("tool_calls")));
    unnamed(&events) + "data: [DONE]\n\n"
}

/// What stands before what differs from event to event.
const PLACES: &[&str] = &[
    "\"text\":\"",
    "\"thinking\":\"",
    "\"delta\":\"",
    "\"content\":\"",
    "\"obfuscation\":\"",
    "\"sequence_number\":",
    "\"created\":",
    "\"index\":",
    "\n\n",
];

/// Lines that make something else of what follows.
const LINES: &[&str] =
    &["event: error\n", "event: ping\n", "data: \n", "data: {\n", ": words\n", ": words", "\r"];

/// Bytes that mean something somewhere.
const BYTES: &[u8] = b"\"\"\\\\{}[]:,0019-.eu \n\r\t\x00\x1f\x7f\xff\xc3\xed\xa0x";

#[test]
fn what_is_read_in_one_pass_reads_as_serde_reads_it() {
    for (wire, body) in [("anthropic", anthropic()), ("responses", responses()), ("chat", chat())] {
        let same_in = |pieces: &[&[u8]], about: &str| {
            let body = pieces.concat();
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            let cut = format!("{:?}", read(wire, &bytes, Default::default()));
            let decoded = read(wire, pieces, Default::default());
            let by_serde = read(wire, &[&unusual(&body)], Default::default());
            let body = || String::from_utf8_lossy(&body);
            assert_eq!(decoded.said(), by_serde.said(), "{wire}, {about}:\n{}", body());
            assert_eq!(format!("{decoded:?}"), cut, "{wire}, {about}:\n{}", body());
        };
        let same = |body: &[u8], about: &str| same_in(&[body], about);
        same(body.as_bytes(), "as it is");
        same(body.replace('\n', "\r\n").as_bytes(), "with both line ends");
        same(body.replace('\n', "\r").as_bytes(), "with carriage returns");
        let spaces = |(at, line): (usize, &str)| match line.strip_suffix('}') {
            Some(event) => format!("{event}{}}}\n", " ".repeat(at * 7 % 16)),
            None => format!("{line}\n"),
        };
        same(body.lines().enumerate().map(spaces).collect::<String>().as_bytes(), "padded");
        same(body.replace("\n\n", "\n\n: still here\n\n").as_bytes(), "with comments");
        same(body.replace("\n\n", "\n\n\n").as_bytes(), "with a blank line more");
        same(body.replace("\n\n", "\nid: 7\n\n").as_bytes(), "with a number behind");

        let zero = body.replace("_number\":15", "_number\":015").replace("ted\":105", "ted\":0105");
        same(zero.as_bytes(), "with numbers that are none");
        let ends = body.match_indices("\n\n").map(|(at, end)| at + end.len());
        for (front, back) in ends.map(|at| body.as_bytes().split_at(at)) {
            for line in [": words", "data: {\n", "event: error\n", "\r"] {
                same_in(&[&[front, line.as_bytes()].concat(), back], "cut behind a line");
            }
        }
        same(body.replace("\"index\":0", "\"index\":1").as_bytes(), "of another choice");

        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
        let mut below = |limit: usize| random.next_u32() as usize % limit;
        for round in 0..crate::times(250) {
            let mut changed = body.clone().into_bytes();
            for _ in 0..=below(2) {
                let at = match PLACES.get(below(2 * PLACES.len())) {
                    Some(place) => {
                        let places: Vec<_> = body.match_indices(place).collect();
                        let Some((at, place)) = places.get(below(places.len().max(1))) else {
                            continue;
                        };
                        at + place.len() + below(3)
                    }
                    None => below(changed.len()),
                };
                let at = at.min(changed.len() - 1);
                match below(5) {
                    0 => changed[at] = BYTES[below(BYTES.len())],
                    1 => changed.insert(at, BYTES[below(BYTES.len())]),
                    2 => drop(changed.remove(at)),
                    3 => {
                        let line = changed[..at].iter().rposition(|byte| *byte == b'\n');
                        let at = line.map_or(0, |line| line + 1);
                        changed.splice(at..at, LINES[below(LINES.len())].bytes());
                    }
                    _ => {
                        // Something of the stream once more, somewhere else.
                        let piece = changed[at..(at + below(40)).min(changed.len())].to_vec();
                        let to = below(changed.len());
                        changed.splice(to..to, piece);
                    }
                }
            }
            same(&changed, &format!("round {round}"));
        }
    }
}

/// All ways of reading this body, which follows the start of an answer, must be the same.
fn same(wire: &str, events: &str) {
    let start = match wire {
        "anthropic" => named(&[
            json!({"type": "message_start", "message": {"id": "msg_1"}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text"}}),
        ]),
        _ => named(&[
            json!({"type": "response.created", "response": {"id": "resp_1"}}),
            json!({"type": "response.output_item.added", "output_index": 0,
                "item": {"id": "item_1", "type": "message"}}),
        ]),
    };
    both_ways(wire, &(start + events), Default::default());
}

/// An event of Anthropic's that adds to a block.
fn delta(index: u8, text: &str) -> String {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta",
        "text": text}})
    .to_string()
}

#[test]
fn an_event_of_many_lines_hides_nothing() {
    let [a, b, c] = ["a", "b", "c"].map(|text| delta(0, text));
    let other = delta(1, "x");
    // What comes on the line `error: ..` is handed over at once, and the rest is still to come.
    same("anthropic", &format!("data: {other}\nerror: {a}\n\n").repeat(3));
    same("anthropic", &format!("event: x\nerror: {other}\ndata: {a}\n\n").repeat(3));
    same(
        "anthropic",
        &format!("event: error\nerror: {a}\n\nevent: error\nerror: {b}\ndata: oops\n\n"),
    );
    // Lines that follow the data, so long that the places of the event seem to be elsewhere.
    let hollow = |text: &str, more: &str| {
        let delta = format!(r#"{{"type":"text_delta","text":{text},"x":{more}}}"#);
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#)
    };
    let (good, bad) = (hollow("\"\"", "\"\""), hollow("\"\"", "abc\"\""));
    for line in ["id: 7", "retry:", "event:", ": word"] {
        same("anthropic", &format!("data: {good}\n{line}\n\ndata: {bad}\n{line}\n\n"));
    }
    // Data on several lines.
    let split = |delta: &str| delta.replacen(',', ",\ndata: ", 1);
    let all: String = [&a, &b, &c].map(|delta| format!("data: {}\n\n", split(delta))).concat();
    same("anthropic", &all);
}

#[test]
fn a_delta_that_does_not_fit_its_item_reads_as_itself() {
    for kind in ["reasoning_summary_text", "reasoning_text", "function_call_arguments"] {
        let event = |delta: &str, refusal: &str| {
            let kind = format!("response.{kind}.delta");
            json!({"type": kind, "output_index": 0, "delta": delta, "refusal": refusal})
        };
        same("responses", &named(&[event("a", "I"), event("b", "I ca"), event("c", "I cannot")]));
    }
}

/// Members that some wire knows, and one that none does.
const NAMES: &str = "type index delta text thinking partial_json signature content_block message \
    usage error output_index item_id content_index summary_index refusal arguments item response \
    object id model choices content reasoning_content reasoning reasoning_text reasoning_details \
    tool_calls function_call role finish_reason detail x_groq created provider citation stop_reason x";

/// Values of each kind.
const VALUES: &[&[&str]] = &[
    &[
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"length\"",
        "\"error\"",
        "\"\\n\"",
        "\"0\"",
        "\"\\ud800\"",
        "\"\t\"",
    ],
    &["0", "1", "17", "3", "2", "18446744073709551616", "01", "1.5", "-0", "1e3"],
    &["null", "true", "[]", "{}", "[1]", "{\"text\":\"b\"}", "[{\"text\":\"b\"}]"],
];

/// An object, with the values that differ from event to event.
type Members = Vec<(&'static str, String)>;

fn write(members: &Members, nested: &str) -> String {
    let value = |value: &str| if value.is_empty() { nested.to_owned() } else { value.to_owned() };
    let all = members.iter().map(|(name, of)| format!("\"{name}\":{}", value(of)));
    format!("{{{}}}", all.collect::<Vec<_>>().join(","))
}

/// What begins an answer of this wire, and the levels of a delta. An empty value is the next level.
fn levels(wire: &str, below: &mut impl FnMut(usize) -> usize) -> (String, Vec<Members>) {
    let text = || "\"la\"".to_owned();
    match wire {
        "anthropic" => {
            let mut kinds = ["text", "thinking", "tool_use", "server"].into_iter().zip(0..);
            let start = |(kind, at)| {
                json!({"type": "content_block_start", "index": at,
                "content_block": {"type": kind, "id": "a", "name": "b"}})
            };
            let kinds: Vec<_> = kinds.by_ref().map(start).collect();
            let at = below(3);
            let (kind, field) = [
                ("text_delta", "text"),
                ("thinking_delta", "thinking"),
                ("input_json_delta", "partial_json"),
            ][at];
            let index = [at, at, below(4)][below(3)].to_string();
            let kind = format!("\"{kind}\"");
            let outer = vec![
                ("type", "\"content_block_delta\"".to_owned()),
                ("index", index),
                ("delta", String::new()),
            ];
            (named(&kinds), vec![outer, vec![("type", kind), (field, text())]])
        }
        "responses" => {
            let kinds = ["message", "reasoning", "function_call", "custom_tool_call"];
            let start = |(at, kind)| {
                json!({"type": "response.output_item.added",
                "output_index": at, "item": {"id": at, "type": kind, "name": "n"}})
            };
            let kinds: Vec<_> = (0..).zip(kinds).map(start).collect();
            let (kind, at) = [
                ("output_text", 0),
                ("refusal", 0),
                ("reasoning_summary_text", 1),
                ("reasoning_text", 1),
                ("function_call_arguments", 2),
            ][below(5)];
            let outer = vec![
                ("type", format!("\"response.{kind}.delta\"")),
                ("output_index", [at, at, below(4)][below(3)].to_string()),
                ("delta", text()),
            ];
            (named(&kinds), vec![outer])
        }
        _ => {
            let field = ["content", "reasoning_content", "reasoning", "thinking"][below(4)];
            let outer = vec![("id", text()), ("choices", String::new())];
            let choice = vec![("index", "0".to_owned()), ("delta", String::new())];
            (String::new(), vec![outer, choice, vec![(field, text())]])
        }
    }
}

#[test]
fn members_of_any_kind_and_place_make_no_difference() {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let names: Vec<&str> = NAMES.split_whitespace().collect();
    let rounds = crate::times(700);
    for round in 0..rounds {
        let wire = ["anthropic", "responses", "chat"][round % 3];
        let (mut body, mut levels) = levels(wire, &mut below);
        for _ in 0..below(4) {
            let kind = VALUES[below(VALUES.len())];
            let level = below(levels.len());
            let at = below(levels[level].len() + 1);
            levels[level].insert(at, (names[below(names.len())], kind[below(5)].to_owned()));
        }
        for _ in 0..6 {
            let mut event = String::new();
            for (depth, level) in levels.iter().enumerate().rev() {
                event = write(level, &event);
                if wire == "chat" && depth == 1 {
                    event = format!("[{event}]");
                }
            }
            let line = ["event: error\n", "event: x\n", "id: 7\n"].get(below(24)).unwrap_or(&"");
            body.push_str(&format!("{line}data: {event}\n\n"));
            // The next event has other values, nearly always of the same kind.
            for (_, value) in levels.iter_mut().flatten() {
                let kind =
                    match (below(40), VALUES.iter().find(|kind| kind.contains(&value.as_str()))) {
                        (0, _) if !value.is_empty() => VALUES[below(VALUES.len())],
                        (1..=20, Some(kind)) => kind,
                        _ if value == "\"la\"" => VALUES[0],
                        _ => continue,
                    };
                let few = if below(6) == 0 { kind.len() } else { 5 };
                *value = kind[below(few)].to_owned();
            }
        }
        both_ways(wire, &body, Default::default());
    }
}

/// Answers with one event at least of each kind that is walked over, and with all members that matter.
fn full(wire: &str) -> String {
    match wire {
        "anthropic" => {
            let start = |index: u8, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let delta = |index: u8, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let stop = |index: u8| json!({"type": "content_block_stop", "index": index});
            let cited = json!({"type": "char_location", "cited_text": "it", "document_title": "t",
                "start_char_index": 1, "end_char_index": 3});
            let usage = json!({"input_tokens": 3, "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 2, "output_tokens": 1, "iterations": [],
                "output_tokens_details": {"thinking_tokens": 1, "reasoning_tokens": null}});
            named(&[
                json!({"type": "message_start", "message": {"id": "msg_1", "model": "m",
                    "content": [], "stop_reason": null, "usage": usage}}),
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
                delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
                stop(0),
                start(1, json!({"type": "text", "text": "", "citations": [cited]})),
                delta(1, json!({"type": "text_delta", "text": "a"})),
                delta(1, json!({"type": "citations_delta", "citation": cited})),
                stop(1),
                start(
                    2,
                    json!({"type": "web_search_tool_result", "tool_use_id": "s",
                    "content": [{"url": "u", "title": null}]}),
                ),
                stop(2),
                start(
                    3,
                    json!({"type": "tool_use", "id": "c", "name": "say", "input": {},
                    "caller": {"type": "direct"}}),
                ),
                delta(3, json!({"type": "input_json_delta", "partial_json": "{}"})),
                stop(3),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use",
                    "stop_sequence": null}, "usage": usage}),
                json!({"type": "message_stop"}),
            ])
        }
        "responses" => {
            let item = |kind: &str, index: u8, item: Value| {
                let kind = format!("response.output_item.{kind}");
                json!({"type": kind, "output_index": index, "item": item})
            };
            let source = json!({"type": "url_citation", "url": "u", "title": "t",
                "start_index": 0, "end_index": 1});
            let said = json!({"id": "m", "type": "message", "phase": "final_answer", "content": [
                {"type": "output_text", "text": "ab", "annotations": [source]}]});
            let call = json!({"id": "f", "type": "function_call", "status": "completed",
                "call_id": "c", "name": "say", "arguments": "{}"});
            let told = |kind: &str, index: u8, name: &str, value: Value| {
                let kind = format!("response.{kind}");
                json!({"type": kind, "output_index": index, "item_id": "i", "content_index": 0,
                    "summary_index": 0, name: value})
            };
            let response = |status: &str, output: Value| {
                json!({"id": "resp_1", "model": "m", "status": status, "output": output,
                "incomplete_details": null, "usage": {"input_tokens": 3,
                "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
                "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 2}}})
            };
            named(&[
                json!({"type": "response.created", "response": response("queued", json!([]))}),
                json!({"type": "response.in_progress", "response": response("x", json!([]))}),
                item("added", 0, json!({"id": "r", "type": "reasoning", "summary": []})),
                told("reasoning_summary_text.delta", 0, "delta", json!("Hm.")),
                item(
                    "done",
                    0,
                    json!({"id": "r", "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "Hm."}]}),
                ),
                item("added", 1, json!({"id": "m", "type": "message", "content": []})),
                told("output_text.delta", 1, "delta", json!("a")),
                told("output_text.annotation.added", 1, "annotation", source.clone()),
                told("output_text.done", 1, "text", json!("ab")),
                told("content_part.done", 1, "part", json!({"text": "ab"})),
                told("refusal.done", 1, "refusal", json!("")),
                item("done", 1, said.clone()),
                item(
                    "added",
                    2,
                    json!({"id": "f", "type": "function_call", "call_id": "c",
                    "name": "say", "arguments": ""}),
                ),
                told("function_call_arguments.delta", 2, "delta", json!("{")),
                told("function_call_arguments.done", 2, "arguments", json!("{}")),
                item("done", 2, call.clone()),
                json!({"type": "response.completed",
                    "response": response("completed", json!([said, call]))}),
            ])
        }
        _ => {
            let chunk = |choice: Value, name: &str, value: Value| {
                json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
                    "choices": [choice], name: value})
            };
            let choice = |delta: Value| json!({"index": 0, "delta": delta, "finish_reason": null});
            let call = |function: Value| {
                choice(json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                    "function": function, "extra_content": {"google": {"x": 1}}}]}))
            };
            let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 1}, "prompt_cache_hit_tokens": 1,
                "completion_tokens_details": {"reasoning_tokens": 1}, "reasoning_tokens": null});
            let found = json!([{"title": "t", "url": "u"}, {"url": "v"}]);
            let words = json!({"content": "b"});
            let beside = json!({"index": 0, "delta": words, "finish_reason": null,
                "message": {"role": "assistant", "content": "ab", "tool_calls": null}});
            let details = json!([{"type": "reasoning.text", "text": "Hm", "index": 0}]);
            let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "o"}]}]);
            let events = [
                chunk(choice(json!({"role": "assistant", "content": ""})), "usage", Value::Null),
                chunk(
                    choice(json!({"reasoning": "Hm", "reasoning_details": details,
                    "refusal": null})),
                    "usage",
                    usage.clone(),
                ),
                chunk(
                    choice(json!({"reasoning": ".", "reasoning_details": details})),
                    "error",
                    Value::Null,
                ),
                chunk(beside.clone(), "search_results", found.clone()),
                chunk(beside, "search_results", found),
                chunk(choice(words.clone()), "citations", json!(["u", "w"])),
                chunk(choice(words), "citations", json!(["u", "w"])),
                chunk(choice(json!({"content": parts})), "detail", Value::Null),
                chunk(call(json!({"name": "say", "arguments": "{\"a\":"})), "x", Value::Null),
                chunk(call(json!({"name": null, "arguments": "1}"})), "x", Value::Null),
                chunk(
                    json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"}),
                    "x_groq",
                    json!({"id": "r", "usage": usage}),
                ),
            ];
            unnamed(&events) + "data: [DONE]\n\n"
        }
    }
}

/// Values that may stand where another one is expected.
const OTHERS: &[&str] = &[
    "null",
    "true",
    "0",
    "7",
    "-1",
    "1.5",
    "18446744073709551616",
    "\"\"",
    "\"a\"",
    "\"5\"",
    "\"\\u00e9\"",
    "\"\\ud83d\"",
    "[]",
    "{}",
    "[null]",
    "[\"a\",1]",
    "[{\"text\":\"b\",\"type\":\"text\"}]",
    "{\"text\":\"b\"}",
    "{\"type\":\"text\",\"id\":\"x\"}",
    "[{}]",
    "{\"a\":1,\"a\":2}",
];

#[test]
fn what_begins_and_ends_an_answer_reads_as_serde_reads_it() {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let bodies = ["anthropic", "responses", "chat"].map(|wire| (wire, full(wire)));
    for (wire, body) in &bodies {
        let whole = both_ways(wire, body, Default::default());
        assert!(whole.completed().is_some(), "{wire}: {:?}", whole.end);
    }
    let rounds = crate::times(350);
    for round in 0..rounds {
        let (wire, body) = &bodies[round % 3];
        let mut names: Vec<&str> = body.split('"').skip(1).step_by(2).collect();
        let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        names.retain(|name| !name.is_empty() && is_name(name));
        let mut body = body.clone();
        for _ in 0..=below(2) {
            let other = OTHERS[below(OTHERS.len())];
            if below(3) == 0 {
                // A member more, which may be there already.
                let places: Vec<usize> = body.match_indices("{\"").map(|(at, _)| at + 1).collect();
                let name = names[below(names.len())];
                body.insert_str(places[below(places.len())], &format!("\"{name}\":{other},"));
                continue;
            }
            let places: Vec<usize> = body.match_indices("\":").map(|(at, _)| at).collect();
            let end = places[below(places.len())];
            let at = end + 2;
            let mut values = serde_json::Deserializer::from_str(&body[at..])
                .into_iter::<serde::de::IgnoredAny>();
            if values.next().is_none_or(|value| value.is_err()) {
                continue;
            }
            let value = at..at + values.byte_offset();
            if below(2) == 0 {
                // Another value.
                body.replace_range(value, other);
            } else {
                // The same member twice, with the same value or another one.
                let start = body[..end].rfind('"').unwrap_or(end);
                let same = body[start..value.end].to_owned();
                let twice = [format!("{same},"), format!("{}:{other},", &body[start..=end])];
                body.insert_str(start, &twice[below(2)]);
            }
        }
        both_ways(wire, &body, Default::default());
    }
}
