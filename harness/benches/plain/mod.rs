//! The work of reading an answer in a program without a decoder. The lines are split. `serde_json` deserializes each
//! event into a struct with the necessary members, which borrows texts where possible, and the text is appended. No
//! events are returned. The beginning, the end and errors of the answer are ignored.

use std::{borrow::Cow, hint::black_box};

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A reader for the answers of one wire.
pub(crate) struct Plain {
    read: fn(&[u8], &mut String),
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
    /// All text of the answer: words, thinking and arguments.
    pub(crate) said: String,
}

impl Plain {
    pub(crate) fn new(wire: &str) -> Self {
        let read = match wire {
            "anthropic" => anthropic,
            "responses" => responses,
            "chat" => chat,
            other => panic!("a wire without a bench: {other}"),
        };
        Self { read, rest: Vec::new(), said: String::new() }
    }

    /// Reads the next bytes of the answer.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(at) = memchr(b'\n', bytes) {
            let (line, after) = bytes.split_at(at);
            bytes = after.get(1..).unwrap_or_default();
            if self.rest.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole);
                whole.clear();
                self.rest = whole;
            }
        }
        self.rest.extend_from_slice(bytes);
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        (self.read)(data.trim_ascii(), &mut self.said);
    }
}

/// A text that is copied only if it contains JSON escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn append(said: &mut String, text: Option<&Text<'_>>) {
    said.push_str(text.map_or("", |text| &text.0));
}

fn anthropic(data: &[u8], said: &mut String) {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        index: Option<u64>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        content_block: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        text: Option<Text<'a>>,
        #[serde(borrow)]
        thinking: Option<Text<'a>>,
        #[serde(borrow)]
        partial_json: Option<Text<'a>>,
        #[serde(borrow)]
        stop_reason: Option<Text<'a>>,
    }

    let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else { return };
    black_box((event.index, event.content_block, event.message, event.usage));
    if let (Some(delta), "content_block_delta") = (&event.delta, &*event.kind.0) {
        black_box(&delta.stop_reason);
        let texts = [&delta.text, &delta.thinking, &delta.partial_json];
        texts.into_iter().for_each(|text| append(said, text.as_ref()));
    }
}

fn responses(data: &[u8], said: &mut String) {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        output_index: Option<u64>,
        content_index: Option<u64>,
        #[serde(borrow)]
        delta: Option<Text<'a>>,
        #[serde(borrow)]
        item: Option<&'a RawValue>,
        #[serde(borrow)]
        response: Option<&'a RawValue>,
    }

    let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else { return };
    black_box((event.output_index, event.content_index, event.item, event.response));
    if event.kind.0.ends_with(".delta") {
        append(said, event.delta.as_ref());
    }
}

fn chat(data: &[u8], said: &mut String) {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        id: Option<Text<'a>>,
        #[serde(borrow)]
        model: Option<Text<'a>>,
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    struct Choice<'a> {
        index: Option<u64>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        finish_reason: Option<Text<'a>>,
    }

    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        content: Option<Text<'a>>,
        #[serde(borrow)]
        reasoning: Option<Text<'a>>,
        #[serde(borrow)]
        reasoning_content: Option<Text<'a>>,
        #[serde(borrow)]
        tool_calls: Option<Vec<Call<'a>>>,
    }

    #[derive(Deserialize)]
    struct Call<'a> {
        index: Option<u64>,
        #[serde(borrow)]
        function: Option<Function<'a>>,
    }

    #[derive(Deserialize)]
    struct Function<'a> {
        #[serde(borrow)]
        name: Option<Text<'a>>,
        #[serde(borrow)]
        arguments: Option<Text<'a>>,
    }

    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else { return };
    black_box((&chunk.id, &chunk.model, chunk.usage));
    for choice in &chunk.choices {
        black_box((choice.index, &choice.finish_reason));
        let Some(delta) = &choice.delta else { continue };
        append(said, delta.reasoning_content.as_ref().or(delta.reasoning.as_ref()));
        append(said, delta.content.as_ref());
        for call in delta.tool_calls.iter().flatten() {
            black_box(call.index);
            if let Some(function) = &call.function {
                black_box(&function.name);
                append(said, function.arguments.as_ref());
            }
        }
    }
}
