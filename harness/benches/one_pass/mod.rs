//! The minimum work of reading an answer. The lines are split, and each event is read once, from its first byte to its
//! last byte, with all nested values. From each event, the reader takes the kind, the part of the answer and the text,
//! in any order. It checks nothing, stores only the text, and returns no events.

use memchr::memchr;

/// A reader for the answers of one wire.
pub(crate) struct Floor {
    wire: Wire,
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
    /// All text of the answer: words, thinking and arguments.
    pub(crate) said: String,
    /// The number of events so far.
    pub(crate) events: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Wire {
    Anthropic,
    Responses,
    Chat,
}

/// The kind of object that is being read.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Event,
    Choice,
    Delta,
    Call,
    Function,
}

/// The values that were found in an event, as written in the JSON.
#[derive(Default)]
struct Found<'a> {
    kind: &'a [u8],
    index: &'a [u8],
    text: &'a [u8],
    finish: &'a [u8],
    usage: &'a [u8],
}

impl Floor {
    pub(crate) fn new(wire: &str) -> Self {
        let wire = match wire {
            "anthropic" => Wire::Anthropic,
            "responses" => Wire::Responses,
            "chat" => Wire::Chat,
            other => panic!("a wire without a bench: {other}"),
        };
        Self { wire, rest: Vec::new(), said: String::new(), events: 0 }
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
        let data = data.strip_prefix(b" ").unwrap_or(data);
        self.events += 1;
        if data.first() != Some(&b'{') {
            return;
        }
        let mut found = Found::default();
        object(data, 0, self.wire, Level::Event, &mut found);
        std::hint::black_box((found.index, found.finish, found.usage));
        let is_delta = match self.wire {
            Wire::Anthropic => found.kind == br#""content_block_delta""#,
            Wire::Responses => found.kind.ends_with(br#".delta""#),
            Wire::Chat => true,
        };
        if is_delta {
            unescape(found.text, &mut self.said);
        }
    }
}

/// Reads the object that begins at `at`, and returns the index after it.
fn object<'a>(
    data: &'a [u8],
    mut at: usize,
    wire: Wire,
    level: Level,
    found: &mut Found<'a>,
) -> usize {
    at += 1;
    loop {
        while let Some(b' ' | b',' | b'\n' | b'\t' | b'\r') = data.get(at) {
            at += 1;
        }
        if data.get(at) != Some(&b'"') {
            return at + 1;
        }
        let name = at + 1;
        at = string(data, name);
        let name = data.get(name..at - 1).unwrap_or_default();
        while let Some(b' ' | b':' | b'\n' | b'\t' | b'\r') = data.get(at) {
            at += 1;
        }
        let below = match (wire, level, name) {
            (Wire::Chat, Level::Event, b"choices") => Some(Level::Choice),
            (Wire::Chat, Level::Delta, b"tool_calls") => Some(Level::Call),
            (Wire::Chat, Level::Call, b"function") => Some(Level::Function),
            (Wire::Chat, Level::Choice, b"delta") | (Wire::Anthropic, Level::Event, b"delta") => {
                Some(Level::Delta)
            }
            _ => None,
        };
        if let Some(below) = below {
            match (below, data.get(at)) {
                (Level::Choice | Level::Call, Some(b'[')) => {
                    at += 1;
                    while let Some(b'{') = data.get(at) {
                        at = object(data, at, wire, below, found);
                        while let Some(b' ' | b',') = data.get(at) {
                            at += 1;
                        }
                    }
                    at += 1;
                    continue;
                }
                (Level::Delta | Level::Function, Some(b'{')) => {
                    at = object(data, at, wire, below, found);
                    continue;
                }
                _ => {}
            }
        }
        let begin = at;
        at = value(data, at);
        let value = data.get(begin..at).unwrap_or_default();
        match (wire, level, name) {
            (Wire::Anthropic | Wire::Responses, Level::Event, b"type") => found.kind = value,
            (Wire::Anthropic, Level::Event, b"index")
            | (Wire::Responses, Level::Event, b"output_index")
            | (Wire::Chat, Level::Choice, b"index") => found.index = value,
            (Wire::Anthropic, Level::Delta, b"text" | b"thinking" | b"partial_json")
            | (Wire::Responses, Level::Event, b"delta")
            | (Wire::Chat, Level::Function, b"arguments") => found.text = value,
            (Wire::Chat, Level::Delta, b"content" | b"reasoning" | b"reasoning_content")
                if value.len() > 2 && value.first() == Some(&b'"') =>
            {
                found.text = value;
            }
            (Wire::Chat, Level::Choice, b"finish_reason") => found.finish = value,
            (Wire::Chat, Level::Event, b"usage") => found.usage = value,
            _ => {}
        }
    }
}

/// The index after the value that begins at `at`.
fn value(data: &[u8], mut at: usize) -> usize {
    match data.get(at) {
        Some(b'"') => string(data, at + 1),
        Some(b'{' | b'[') => {
            let mut depth = 0_usize;
            while let Some(byte) = data.get(at) {
                at += 1;
                match byte {
                    b'"' => at = string(data, at),
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            at
        }
        _ => {
            while let Some(byte) = data.get(at)
                && !matches!(byte, b',' | b'}' | b']')
            {
                at += 1;
            }
            at
        }
    }
}

/// The index after the string whose first character is at `at`. The closing quote belongs to the string.
fn string(data: &[u8], mut at: usize) -> usize {
    loop {
        at += quote_or_escape(data.get(at..).unwrap_or_default());
        match data.get(at) {
            Some(b'\\') => at += 2,
            _ => return at + 1,
        }
    }
}

/// The index of the first quote or backslash. The strings of an event are short. For them, comparing eight bytes at a
/// time is faster than `memchr`, which takes some time to start.
fn quote_or_escape(data: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, tail) = data.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let found = (zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c))) & (ONES << 7);
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let at = tail.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    words.len() * 8 + at.unwrap_or(tail.len())
}

/// Appends the content of a JSON string, whose quotes are included in `written`. Other values are ignored.
fn unescape(written: &[u8], said: &mut String) {
    let inside = written.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let Some(Ok(mut rest)) = inside.map(std::str::from_utf8) else { return };
    while let Some((plain, escape)) = rest.split_once('\\') {
        said.push_str(plain);
        let mut escape = escape.chars();
        match escape.next() {
            Some('n') => said.push('\n'),
            Some('t') => said.push('\t'),
            Some('r') => said.push('\r'),
            Some('u') => {
                let mut unit = || -> Option<u16> {
                    let digits = escape.as_str().get(..4)?;
                    escape = escape.as_str().get(4..)?.chars();
                    u16::from_str_radix(digits, 16).ok()
                };
                let first = unit().unwrap_or(0xfffd);
                let second = (0xd800..0xdc00).contains(&first).then(|| {
                    escape = escape.as_str().strip_prefix("\\u").unwrap_or_default().chars();
                    let digits = escape.as_str().get(..4).unwrap_or_default();
                    escape = escape.as_str().get(4..).unwrap_or_default().chars();
                    u16::from_str_radix(digits, 16).unwrap_or(0xfffd)
                });
                let units = [first].into_iter().chain(second);
                said.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')));
            }
            Some(other) => said.push(other),
            None => {}
        }
        rest = escape.as_str();
    }
    said.push_str(rest);
}
