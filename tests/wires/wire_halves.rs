//! A server that counts its texts in UTF-16 may split them inside of a character. For each split
//! the result is the same, on every wire, and in text, thinking and arguments.

use harness::wire::WIRES;
use harness::{StopReason, StreamEvent};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};

use crate::decoded::{Decoded, both_ways, named, unnamed};

/// What the texts of a body are written as before they are cut.
const HERE: [&str; 3] = ["@words@", "@thinking@", "@arguments@"];

/// One delta of each text, in the form of the wire.
fn delta(wire: &str, of: usize, text: &str) -> Value {
    match (wire, of) {
        ("anthropic", of) => {
            let (kind, field) = [
                ("text_delta", "text"),
                ("thinking_delta", "thinking"),
                ("input_json_delta", "partial_json"),
            ][of];
            json!({"type": "content_block_delta", "index": of, "delta": {"type": kind, field: text}})
        }
        ("responses", of) => {
            let kind = ["output_text", "reasoning_summary_text", "function_call_arguments"][of];
            json!({"type": format!("response.{kind}.delta"), "output_index": of, "delta": text})
        }
        (_, of) => {
            let delta = match of {
                0 => json!({"content": text}),
                1 => json!({"reasoning_content": text}),
                _ => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
            };
            json!({"id": "c", "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        }
    }
}

/// What begins and ends an answer of this wire.
fn around(wire: &str) -> (Vec<Value>, Vec<Value>) {
    match wire {
        "anthropic" => {
            let block = |index: u8, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let start = vec![
                json!({"type": "message_start", "message": {"id": "m"}}),
                block(0, json!({"type": "text", "text": ""})),
                block(1, json!({"type": "thinking", "thinking": ""})),
                block(2, json!({"type": "tool_use", "id": "c1", "name": "say", "input": {}})),
            ];
            let stops = (0..3).map(|index| json!({"type": "content_block_stop", "index": index}));
            let end = [
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ];
            (start, stops.chain(end).collect())
        }
        "responses" => {
            let item = |at: u8, item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
            let start = vec![
                item(0, json!({"type": "message", "id": "msg_1"})),
                item(1, json!({"type": "reasoning", "id": "rs_1"})),
                item(
                    2,
                    json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "say"}),
                ),
            ];
            (
                start,
                vec![json!({"type": "response.completed", "response": {"status": "completed"}})],
            )
        }
        _ => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "c", "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            };
            let call =
                json!({"index": 0, "id": "c1", "function": {"name": "say", "arguments": ""}});
            let start = vec![chunk(json!({"tool_calls": [call]}), Value::Null)];
            (start, vec![chunk(json!({}), json!("tool_calls"))])
        }
    }
}

/// The text as it stands in JSON, between the quotes: a half is written as an escape, and so is
/// whatever else is not ASCII if `all` is.
fn written(units: &[u16], all: bool) -> String {
    let mut out = String::new();
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok(char) if char.is_ascii() || !all => {
                let quoted = json!(char.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            Ok(char) => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                out.push_str(&format!(r"\u{unit:04X}"));
            }),
            Err(half) => out.push_str(&format!(r"\u{:04x}", half.unpaired_surrogate())),
        }
    }
    out
}

/// The body of an answer with these pieces of its texts, each of words, thinking or arguments.
fn body(wire: &str, pieces: &[(usize, String)]) -> String {
    let (mut events, end) = around(wire);
    events.extend(pieces.iter().map(|(of, _)| delta(wire, *of, HERE[*of])));
    events.extend(end);
    let mut body = match wire {
        "chat" => unnamed(&events) + "data: [DONE]\n\n",
        _ => named(&events),
    };
    for (of, piece) in pieces {
        body = body.replacen(HERE[*of], piece, 1);
    }
    body
}

fn said(decoded: &Decoded) -> [String; 3] {
    assert_eq!(decoded.stop(), StopReason::ToolCalls);
    let calls = decoded.calls();
    [decoded.text(), decoded.reasoning(), calls[0].arguments.clone()]
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

#[test]
fn a_character_that_is_cut_over_two_deltas_is_one_character() {
    for wire in WIRES {
        let text = units("ab\u{1F642}cd");
        let arguments = units("{\"city\":\"ab\u{1F642}cd\"}");
        let mut pieces = Vec::new();
        for (of, text, cut) in [(0, &text, 3), (1, &text, 3), (2, &arguments, 12)] {
            let (one, other) = text.split_at(cut);
            pieces.extend([one, other].map(|piece| (of, written(piece, true))));
        }
        // The texts come in turns: each holds its own half.
        for order in [[0, 1, 2, 3, 4, 5], [0, 2, 4, 1, 3, 5]] {
            let pieces = order.map(|at| pieces[at].clone());
            let decoded = both_ways(wire, &body(wire, &pieces), Default::default());
            let expected = ["ab\u{1F642}cd", "ab\u{1F642}cd", "{\"city\":\"ab\u{1F642}cd\"}"];
            assert_eq!(said(&decoded), expected, "{wire} {order:?}");
        }
    }
}

#[test]
fn any_cut_reads_the_same() {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let letters =
        ["a", "\u{1F642}", "\u{1F980}", "é", "\\", "\"", "\n", "\u{10FFFF}", "\u{10D83D}"];
    for round in 0..400 {
        let wire = WIRES[round % 3];
        let mut text = || (0..below(12)).map(|_| letters[below(letters.len())]).collect::<String>();
        let arguments = json!({"city": text()}).to_string();
        let texts =
            [text(), text(), arguments].map(|text| text.replace("\u{10FFFF}\u{10D83D}", ""));
        let mut pieces = Vec::new();
        for (of, text) in texts.iter().enumerate() {
            let text = units(text);
            let mut rest = &text[..];
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(1 + below(rest.len().min(4)));
                pieces.push((of, written(piece, below(2) == 0)));
                rest = more;
            }
        }
        let decoded = both_ways(wire, &body(wire, &pieces), Default::default());
        assert_eq!(said(&decoded), texts, "{wire}, round {round}: {pieces:?}");
        assert_eq!(decoded.answer().message.unwrap().calls().count(), 1);
    }
}

#[test]
fn a_half_whose_other_half_never_comes_costs_one_character() {
    for wire in WIRES {
        for (one, other, expected) in [
            (r"ab\ud83d", "", "ab\u{FFFD}"),
            (r"ab\uD83D", "cd", "ab\u{FFFD}cd"),
            (r"ab\ud83d", r"\ud83d\ude42", "ab\u{FFFD}\u{1F642}"),
            (r"\ude42ab", r"cd\ude42", "\u{FFFD}abcd\u{FFFD}"),
            (r"\\ud83d", r"\\ude42", r"\ud83d\ude42"),
        ] {
            let pieces = [0, 1].map(|of| [(of, one.to_owned()), (of, other.to_owned())]).concat();
            let decoded = both_ways(wire, &body(wire, &pieces), Default::default());
            let [text, thinking, _] = said(&decoded);
            assert_eq!([text.as_str(), thinking.as_str()], [expected; 2], "{wire} {one}");
        }
        let cut = [(2, r#"{\"city\":\"x\ud83d"#.to_owned()), (2, r#"y\"}"#.to_owned())];
        let decoded = both_ways(wire, &body(wire, &cut), Default::default());
        assert_eq!(decoded.calls()[0].arguments, "{\"city\":\"x\u{FFFD}y\"}", "{wire}");
        // An escape that the model wrote is not the server's: the arguments are as they are.
        let own = [(2, r#"{\"city\":\"x\\ud83d"#.to_owned()), (2, r#"\\ude42\"}"#.to_owned())];
        let decoded = both_ways(wire, &body(wire, &own), Default::default());
        assert_eq!(decoded.calls()[0].arguments, r#"{"city":"x\ud83d\ude42"}"#, "{wire}");
        // The last half of a call.
        let last = [(2, r#"{\"city\":\"x\ud83d"#.to_owned())];
        let decoded = both_ways(wire, &body(wire, &last), Default::default());
        assert_eq!(decoded.calls()[0].arguments, "{\"city\":\"x\u{FFFD}", "{wire}");
    }
}

#[test]
fn halves_that_are_written_as_bytes_are_joined() {
    for wire in WIRES {
        let pieces = [(0, "ab@1@".to_owned()), (0, "@2@cd".to_owned())];
        let body = body(wire, &pieces);
        let mut bytes = Vec::new();
        for part in body.split_inclusive('@') {
            match part {
                "1@" => bytes.extend([0xed, 0xa0, 0xbd]),
                "2@" => bytes.extend([0xed, 0xb9, 0x82]),
                part => bytes.extend(part.trim_end_matches('@').bytes()),
            }
        }
        let decoded = crate::decoded::read(wire, &[&bytes], Default::default());
        assert_eq!(decoded.text(), "ab\u{1F642}cd", "{wire}");
    }
}

#[test]
fn what_is_kept_for_the_vendor_keeps_what_the_vendor_wrote() {
    let body = named(&[
        json!({"type": "message_start", "message": {"id": "m"}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "server_tool_use", "id": "@half@", "input": {}}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "c", "name": "say", "input": {"a": "@half@"}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]);
    let decoded = both_ways("anthropic", &body.replace("@half@", r"\ud83d"), Default::default());
    let data: Vec<&str> = decoded
        .events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Vendor { data, .. } => Some(data.json()),
            _ => None,
        })
        .collect();
    assert_eq!(data, [r#"{"type":"server_tool_use","id":"\ud83d","input":{}}"#]);
    assert_eq!(decoded.calls()[0].arguments, r#"{"a":"\ud83d"}"#, "it is refused as it is");
}

#[test]
fn an_error_is_told_in_readable_words() {
    for wire in WIRES {
        let body =
            "event: error\ndata: {\"error\":{\"message\":\"no \\ud83d room\",\"code\":\"x\"}}\n\n";
        let decoded = both_ways(wire, body, Default::default());
        assert_eq!(decoded.error().message(), "no \u{FFFD} room", "{wire}");
    }
    let err = harness::wire::error_of(400, br#"{"error":{"message":"no \ud83d room"}}"#);
    assert_eq!(err.message(), "no \u{FFFD} room");
}
