//! A long conversation is not encoded again for each request.

use harness::{
    CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript,
    message::{Block, Media, VendorData},
    provider::{EncodedPrefix, OutputMode, OutputSchema, Request},
    wire::{anthropic, chat, responses},
};
use serde_json::json;

/// A conversation of this many messages of about 1 KiB.
fn conversation(messages: usize) -> Transcript {
    let mut transcript = Transcript::default();
    for n in 0..messages {
        transcript.push(Message::user(format!("{n} {}", "word ".repeat(200)))).unwrap();
    }
    transcript
}

fn options() -> anthropic::Options {
    anthropic::Options::new("m")
}

type Encode = fn(&Request<'_>) -> Vec<u8>;

const WIRES: [Encode; 3] = [
    |request| anthropic::encode(request, &options()).unwrap(),
    |request| responses::encode(request, &responses::Options::new("m")).unwrap(),
    |request| chat::encode(request, &chat::Options::new("m")).unwrap(),
];

#[test]
fn what_was_sent_is_kept_without_its_texts() {
    for encode in WIRES {
        let sent = EncodedPrefix::new();
        let mut transcript = conversation(500);
        let body = |transcript: &Transcript| {
            encode(&Request::new(transcript).unwrap().with_sent(Some(&sent)))
        };
        for _ in 0..2 {
            let size = body(&transcript).len();
            assert!(size > 500_000);
            assert!(sent.size() < size / 6, "{} bytes are kept for {size}", sent.size());
            transcript.push(Message::user("One more.")).unwrap();
        }
    }
}

/// Texts in which each letter that is escaped stands at each distance from the others, of each length up to
/// more than two pieces of a body.
fn texts() -> Vec<String> {
    let letters: Vec<char> = (0..0x80_u8).map(char::from).chain("äß€😀\u{2028}".chars()).collect();
    let mut texts: Vec<String> = (0..150)
        .flat_map(|run| {
            let gap = "x".repeat(run);
            let all: String = letters
                .iter()
                .flat_map(|it| {
                    [gap.as_str(), "y"].into_iter().map(String::from).chain([it.to_string()])
                })
                .collect();
            ["", "x", &"z".repeat(129)].map(|end| format!("{all}{end}"))
        })
        .collect();
    texts.extend((120..140).map(|length| "\"".repeat(length)));
    texts.extend(
        (65_400..65_600).step_by(7).map(|length| format!("{}\n", "line\n".repeat(length / 5))),
    );
    texts.push("\u{1}".repeat(200_000));
    texts.push("plain ".repeat(60_000));
    texts.push("{\"key\": \"a value\",\n".repeat(20_000));
    texts
}

#[test]
fn a_text_is_escaped_as_json_escapes_it() {
    for encode in WIRES {
        for text in texts() {
            let mut transcript = Transcript::default();
            transcript.push(Message::user(text.as_str())).unwrap();
            let sent = EncodedPrefix::new();
            let body = encode(&Request::new(&transcript).unwrap().with_sent(Some(&sent)));
            let words = serde_json::to_string(&text).unwrap();
            let begin = text.chars().take(50).collect::<String>();
            let body = String::from_utf8(body).unwrap();
            assert!(body.contains(&words), "a text of {} bytes: {begin:?}", text.len());
            assert!(sent.size() < 700 + text.len() / 6, "{} of {}", sent.size(), text.len());
        }
    }
}

#[test]
fn pictures_calls_and_results_are_kept_without_their_data() {
    let file: Vec<u8> = b"\x89PNG\r\n"
        .iter()
        .copied()
        .chain((0..100_001).map(|at| u8::try_from(at * 7 % 251).unwrap()))
        .collect();
    let words = "It says \"yes\".\n".repeat(2000);
    let arguments = serde_json::json!({ "text": words }).to_string();
    let mut transcript = Transcript::default();
    let said = [Block::text("Look:"), Block::Image(Media::from_bytes("image/png", &file))];
    transcript.push(Message::new(Role::User, said)).unwrap();
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "look", arguments.as_str()));
    transcript
        .push(Message::assistant([call("a"), Block::text(words.as_str()), call("b")]))
        .unwrap();
    let picture = ToolContent::Image(Media::from_bytes("image/png", &file));
    let result = |id: &str, content: Vec<ToolContent>| {
        Block::ToolResult(ToolResult::new(id, CallOutcome::Succeeded, content))
    };
    let results = [
        result("a", vec![words.as_str().into(), picture, words.as_str().into()]),
        result("b", vec![words.as_str().into()]),
    ];
    transcript.push(Message::new(Role::Tool, results)).unwrap();
    for encode in WIRES {
        let sent = EncodedPrefix::new();
        let anew = encode(&Request::new(&transcript).unwrap());
        let body: serde_json::Value = serde_json::from_slice(&anew).unwrap();
        let file = Media::from_bytes("image/png", &file);
        let count = |text: &str| body.to_string().matches(text).count();
        assert_eq!(count(file.base64().unwrap()), 2);
        let json = serde_json::to_string(&words).unwrap();
        assert!(count(json.trim_matches('"')) >= 4);
        let request = Request::new(&transcript).unwrap().with_sent(Some(&sent));
        assert!(encode(&request) == anew && encode(&request) == anew);
        assert!(sent.size() < anew.len() / 6, "{} of {}", sent.size(), anew.len());
    }
}

#[test]
fn what_does_not_fit_is_written_anew() {
    let sent = EncodedPrefix::new();
    let transcript = conversation(3);
    let other = conversation(3);
    let anthropic = |transcript: &Transcript, sent: Option<&EncodedPrefix>| {
        let request = Request::new(transcript).unwrap().with_sent(sent);
        anthropic::encode(&request, &options()).unwrap()
    };
    let chat = |system: Option<&str>, sent: Option<&EncodedPrefix>| {
        let request = Request::new(&transcript).unwrap().with_system(system).with_sent(sent);
        chat::encode(&request, &chat::Options::new("m")).unwrap()
    };
    let responses = |sent: Option<&EncodedPrefix>| {
        let request = Request::new(&transcript).unwrap().with_sent(sent);
        let options = responses::Options::new("m");
        responses::encode(&request, &options).unwrap()
    };
    for _ in 0..2 {
        assert_eq!(anthropic(&transcript, Some(&sent)), anthropic(&transcript, None));
        // Another conversation, other wires, and a system prompt that leads on one of them.
        assert_eq!(anthropic(&other, Some(&sent)), anthropic(&other, None));
        assert_eq!(responses(Some(&sent)), responses(None));
        assert_eq!(chat(None, Some(&sent)), chat(None, None));
        assert_eq!(chat(Some("Be brief."), Some(&sent)), chat(Some("Be brief."), None));
        // A shorter conversation, as after a fork.
        let short = conversation(1);
        assert_eq!(anthropic(&short, Some(&sent)), anthropic(&short, None));
    }
    sent.forget();
    assert_eq!(sent.size(), 0);
}

#[test]
fn a_plan_that_is_as_large_as_what_vendors_refuse_is_not_kept() {
    for (bytes, kept) in [(1, true), (33, false)] {
        let value = serde_json::json!("x".repeat(bytes * 1024 * 1024));
        let result = ToolResult::new("a", CallOutcome::Succeeded, [ToolContent::Json(value)]);
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Go.")).unwrap();
        let call = Block::ToolCall(ToolCall::new("a", "look", "{}"));
        transcript.push(Message::assistant([call])).unwrap();
        transcript.push(Message::new(Role::Tool, [Block::ToolResult(result)])).unwrap();
        let sent = EncodedPrefix::new();
        let request = Request::new(&transcript).unwrap().with_sent(Some(&sent));
        let body = anthropic::encode_pieces(&request, &options()).unwrap();
        assert!(body.size() > bytes * 1024 * 1024);
        assert_eq!(sent.size() > 0, kept);
    }
}

/// Words with letters of all kinds, of a length near where something else begins.
fn words(random: &mut fastrand::Rng) -> String {
    const LENGTHS: [usize; 9] = [1, 62, 64, 126, 128, 255, 16_384, 32_768, 65_536];
    let letters = ["\"", "\\", "\n", "\t", "\u{1}", "\u{7f}", "é", "😀", "plain words ", "x"];
    let (kinds, mut text) = (random.usize(1..=letters.len()), String::from("a"));
    let length = match random.u8(..8) {
        0 => LENGTHS[random.usize(6..9)] + random.usize(..200),
        _ => LENGTHS[random.usize(..6)] + random.usize(..5),
    };
    while text.len() < length {
        text += letters[letters.len() - random.usize(1..=kinds)];
    }
    text
}

/// All texts in a value, and those in texts that are JSON themselves.
fn texts_in(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => {
            if let Ok(inner @ serde_json::Value::Object(_)) = serde_json::from_str(text) {
                texts_in(&inner, found);
            }
            found.push(text.clone());
        }
        serde_json::Value::Array(list) => list.iter().for_each(|it| texts_in(it, found)),
        serde_json::Value::Object(members) => members.values().for_each(|it| texts_in(it, found)),
        _ => {}
    }
}

#[test]
fn whatever_is_said_stands_in_the_body_whether_or_not_it_was_planned_before() {
    for seed in 0..crate::times(10) {
        let random = &mut fastrand::Rng::with_seed(seed);
        let (mut transcript, mut said) = (Transcript::default(), Vec::new());
        let sent = WIRES.map(|_| EncodedPrefix::new());
        for turn in 0..random.usize(1..6) {
            let mut say = |random: &mut fastrand::Rng| {
                said.push(words(random));
                said.last().cloned().unwrap_or_default()
            };
            let several: Vec<_> =
                (0..random.usize(1..4)).map(|_| Block::text(say(random))).collect();
            transcript.push(Message::new(Role::User, several)).unwrap();
            let arguments = serde_json::json!({ "text": say(random) }).to_string();
            let spaces = " ".repeat(random.usize(..3));
            let id = format!("call_{turn}");
            let call = ToolCall::new(id.as_str(), "look", format!("{spaces}{arguments}"));
            let answer = [Block::text(say(random)), Block::ToolCall(call)];
            transcript.push(Message::assistant(answer)).unwrap();
            let mut parts: Vec<ToolContent> =
                (0..random.usize(1..3)).map(|_| say(random).into()).collect();
            if random.bool() {
                let file = format!("\u{89}PNG\r\n\u{1a}\n{}", words(random));
                let file = Media::from_bytes("image/png", file.as_bytes());
                parts.insert(random.usize(..=parts.len()), ToolContent::Image(file));
            }
            if random.bool() {
                parts.push(ToolContent::Json(serde_json::json!({ "value": say(random) })));
            }
            let result = ToolResult::new(id.as_str(), CallOutcome::Succeeded, parts);
            transcript.push(Message::new(Role::Tool, [Block::ToolResult(result)])).unwrap();
            for (encode, sent) in WIRES.iter().zip(&sent) {
                let anew = encode(&Request::new(&transcript).unwrap());
                let later = encode(&Request::new(&transcript).unwrap().with_sent(Some(sent)));
                assert!(anew == later, "seed {seed}, turn {turn}");
                let mut found = Vec::new();
                texts_in(&serde_json::from_slice(&anew).unwrap(), &mut found);
                // Where a protocol has one text for a message, several texts stand in it one after the other.
                for text in &said {
                    let json = serde_json::json!({ "value": text }).to_string();
                    let stands = |it: &String| it.contains(text.as_str()) || it.contains(&json);
                    assert!(found.iter().any(stands), "seed {seed}: {} bytes", text.len());
                }
            }
            let request = Request::new(&transcript).unwrap();
            let pieces = chat::encode_pieces(&request, &chat::Options::new("m")).unwrap();
            assert_eq!(pieces.size(), pieces.into_bytes().len());
        }
    }
}

/// The same message, under the same id, with other words.
fn reworded(message: &Message, words: &str) -> Message {
    let mut json = serde_json::to_value(message).unwrap();
    json["blocks"] = serde_json::to_value([Block::text(words)]).unwrap();
    serde_json::from_value(json).unwrap()
}

#[test]
fn another_conversation_that_ends_with_the_same_message_is_written_anew() {
    let all: Vec<Message> = (0..80)
        .map(|n| match n % 2 {
            0 => Message::user(format!("{n} {}", "word ".repeat(n))),
            _ => Message::assistant([Block::text(format!("{n} {}", "answer ".repeat(n)))]),
        })
        .collect();
    let of = |messages: &[Message]| {
        let mut transcript = Transcript::default();
        for message in messages {
            transcript.push(message.clone()).unwrap();
        }
        transcript
    };
    for encode in WIRES {
        for at in [0, 1, 30, 31, 32, 78] {
            let sent = EncodedPrefix::new();
            let body = |transcript: &Transcript| {
                encode(&Request::new(transcript).unwrap().with_sent(Some(&sent)))
            };
            body(&of(&all[..79]));
            let mut other = all.clone();
            other[at] = reworded(&all[at], &"Something else. ".repeat(20));
            let other = of(&other[..79]);
            assert!(body(&other) == encode(&Request::new(&other).unwrap()), "message {at}");
        }
    }
}

/// The schema of an answer stands behind the words of the user where the server has no other place for it.
#[test]
fn the_same_question_with_another_schema_is_written_anew() {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("How old is it?")).unwrap();
    let mut options = chat::Options::new("m");
    options.answer_way = Some(OutputMode::Words);
    let sent = EncodedPrefix::new();
    let body = |schema: serde_json::Value, sent: Option<&EncodedPrefix>| {
        let answer = OutputSchema::new("answer", schema, 0);
        let request = Request::new(&transcript).unwrap().with_answer(Some(&answer));
        chat::encode(&request.with_sent(sent), &options).unwrap()
    };
    let schema = |name: &str| {
        json!({"type": "object", "properties": {name: {"type": "integer"}}, "required": [name],
            "additionalProperties": false})
    };
    for name in ["years", "months"] {
        assert_eq!(body(schema(name), Some(&sent)), body(schema(name), None), "{name}");
    }
}

/// Whether one of the vendor's blocks is sent depends on a later message, which another conversation need not have.
#[test]
fn what_a_later_message_says_of_an_earlier_one_is_not_kept_without_it() {
    let block = |json: serde_json::Value| {
        Block::Vendor(VendorData::new("anthropic", json.to_string()).unwrap())
    };
    let search = |id: &str| {
        block(json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}))
    };
    let found = |id: &str| {
        block(json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []}))
    };
    let of = |messages: Vec<Message>| {
        let mut transcript = Transcript::default();
        for message in messages {
            transcript.push(message).unwrap();
        }
        transcript
    };
    let paused = |block: Block| -> Message {
        let mut message = serde_json::to_value(Message::assistant([block])).unwrap();
        message["paused"] = true.into();
        serde_json::from_value(message).unwrap()
    };
    let begin = [Message::user("Which one?"), paused(search("a"))];
    // The second search still waits: all from there on is written anew, and the first search stands before it.
    let mut first = begin.to_vec();
    first.extend([paused(search("b")), paused(found("a"))]);
    let mut second = begin.to_vec();
    second.push(Message::user("Never mind."));
    let (first, second) = (of(first), of(second));
    let sent = EncodedPrefix::new();
    for transcript in [&first, &second] {
        let request = Request::new(transcript).unwrap();
        let kept = anthropic::encode(&request.clone().with_sent(Some(&sent)), &options()).unwrap();
        let anew = anthropic::encode(&request, &options()).unwrap();
        assert_eq!(String::from_utf8(kept).unwrap(), String::from_utf8(anew).unwrap());
    }
}
