//! The scan, written by hand. It reads each event once, from its first byte to its last byte. It takes the values that
//! a decoder needs, in any order: the kind of the event, the part of the answer, and the text. It skips all other
//! values. It checks nothing and stores only the text.

use memchr::{memchr2, memmem};

use crate::subject::Failure;

#[derive(Clone, Copy)]
enum Wire {
    Anthropic,
    Responses,
    Chat,
}

/// The kind of object that is being read.
#[derive(Clone, Copy)]
enum Level {
    Event,
    Choice,
    Delta,
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

/// Scans an event and appends its text. Only text deltas have text.
pub fn scan(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    let wire = match wire {
        "anthropic" => Wire::Anthropic,
        "responses" => Wire::Responses,
        _ => Wire::Chat,
    };
    // The last event of a Chat Completions stream is no JSON.
    if data.first() != Some(&b'{') {
        return Ok(());
    }
    let mut found = Found::default();
    object(data, 0, wire, Level::Event, &mut found);
    std::hint::black_box((found.index, found.finish, found.usage));
    let has_text = match wire {
        Wire::Anthropic => found.kind == br#""content_block_delta""#,
        Wire::Responses => found.kind == br#""response.output_text.delta""#,
        Wire::Chat => true,
    };
    if has_text { unescape(found.text, text) } else { Ok(()) }
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
        match (wire, level, name, data.get(at)) {
            (Wire::Chat, Level::Event, b"choices", Some(b'[')) => {
                at += 1;
                while let Some(b'{' | b',' | b' ') = data.get(at) {
                    at = match data.get(at) {
                        Some(b'{') => object(data, at, wire, Level::Choice, found),
                        _ => at + 1,
                    };
                }
                // Skips the bracket that closes the list.
                at += 1;
                continue;
            }
            (Wire::Chat, Level::Choice, b"delta", Some(b'{'))
            | (Wire::Anthropic, Level::Event, b"delta", Some(b'{')) => {
                at = object(data, at, wire, Level::Delta, found);
                continue;
            }
            _ => {}
        }
        let begin = at;
        at = value(data, at);
        let value = data.get(begin..at).unwrap_or_default();
        match (wire, level, name) {
            (Wire::Anthropic | Wire::Responses, Level::Event, b"type") => found.kind = value,
            (Wire::Anthropic, Level::Event, b"index")
            | (Wire::Responses, Level::Event, b"output_index")
            | (Wire::Chat, Level::Choice, b"index") => found.index = value,
            (Wire::Anthropic, Level::Delta, b"text")
            | (Wire::Responses, Level::Event, b"delta")
            | (Wire::Chat, Level::Delta, b"content") => found.text = value,
            (Wire::Chat, Level::Choice, b"finish_reason") => found.finish = value,
            (Wire::Chat, Level::Event, b"usage") => found.usage = value,
            _ => {}
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

/// The index of the first quote or backslash. Most strings of an event are short. For them, comparing eight bytes at a
/// time is faster than `memchr2`, which takes some time to start.
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
        // For a long string, `memchr2` is faster.
        if at == 7 {
            let rest = data.get(64..).unwrap_or_default();
            return 64 + memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        }
    }
    let at = tail.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    words.len() * 8 + at.unwrap_or(tail.len())
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

/// Searches for the text in the exact spelling of one vendor, and reads nothing else of the event. If the vendor
/// changed the order of the fields or added a space, this function would find nothing.
pub fn shortcut(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    let (kind, field): (&[u8], &[u8]) = match wire {
        "anthropic" => (br#"{"type":"content_block_delta""#, br#""text":""#),
        "responses" => (br#"{"type":"response.output_text.delta""#, br#""delta":""#),
        _ => (b"{", br#""content":""#),
    };
    if !data.starts_with(kind) {
        return Ok(());
    }
    match memmem::find(data, field) {
        Some(at) => unescape(data.get(at + field.len() - 1..).unwrap_or_default(), text),
        None => Ok(()),
    }
}

/// Appends the content of a JSON string. `written` begins at its opening quote. Other values are ignored.
fn unescape(written: &[u8], text: &mut String) -> Result<(), Failure> {
    let Some(mut rest) = written.strip_prefix(b"\"") else { return Ok(()) };
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        text.push_str(std::str::from_utf8(rest.get(..at).unwrap_or_default())?);
        if rest.get(at) == Some(&b'"') {
            break;
        }
        let mut used = at + 2;
        text.push(match rest.get(at + 1).ok_or("a string without an end")? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let first = unit(rest, used)?;
                used += 4;
                if (0xd800..0xdc00).contains(&first) {
                    let second = unit(rest, used + 2)?;
                    used += 6;
                    let code =
                        0x1_0000 + ((u32::from(first) & 0x3ff) << 10) + (u32::from(second) & 0x3ff);
                    char::from_u32(code).ok_or("half a character")?
                } else {
                    char::from_u32(first.into()).ok_or("half a character")?
                }
            }
            other => char::from(*other),
        });
        rest = rest.get(used..).unwrap_or_default();
    }
    Ok(())
}

fn unit(rest: &[u8], at: usize) -> Result<u16, Failure> {
    let digits = std::str::from_utf8(rest.get(at..at + 4).ok_or("a string without an end")?)?;
    Ok(u16::from_str_radix(digits, 16)?)
}
