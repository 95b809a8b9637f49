//! The hand-written scan: it walks over the event and stops at the fields that a decoder needs,
//! whatever order they come in: what kind of event it is, which part of the answer it belongs to,
//! and the text. All else is stepped over, neither checked nor kept.

use memchr::{memchr2, memmem};

use crate::subject::Failure;

/// The text of the event is appended; an event of another kind has none.
pub fn scan(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    match wire {
        "anthropic" => {
            let (mut kind, mut index, mut delta) = (None, None, None);
            fields(data, |key, value| match key {
                b"type" => kind = Some(value),
                b"index" => index = Some(value),
                b"delta" => delta = Some(value),
                _ => {}
            });
            if kind == Some(br#""content_block_delta""#) && index.is_some() {
                fields(delta.unwrap_or_default(), |key, value| match key {
                    b"type" => kind = Some(value),
                    b"text" => delta = Some(value),
                    _ => {}
                });
                if kind == Some(br#""text_delta""#) {
                    unescape(delta.unwrap_or_default(), text)?;
                }
            }
        }
        "responses" => {
            let (mut kind, mut index, mut delta) = (None, None, None);
            fields(data, |key, value| match key {
                b"type" => kind = Some(value),
                b"output_index" => index = Some(value),
                b"delta" => delta = Some(value),
                _ => {}
            });
            if kind == Some(br#""response.output_text.delta""#) && index.is_some() {
                unescape(delta.unwrap_or_default(), text)?;
            }
        }
        _ => {
            let (mut choices, mut usage) = (None, None);
            fields(data, |key, value| match key {
                b"choices" => choices = Some(value),
                b"usage" => usage = Some(value),
                _ => {}
            });
            std::hint::black_box(usage);
            let (mut index, mut delta, mut finish) = (None, None, None);
            fields(
                choices.unwrap_or_default().get(1..).unwrap_or_default(),
                |key, value| match key {
                    b"index" => index = Some(value),
                    b"delta" => delta = Some(value),
                    b"finish_reason" => finish = Some(value),
                    _ => {}
                },
            );
            std::hint::black_box((index, finish));
            let mut content = None;
            fields(delta.unwrap_or_default(), |key, value| {
                if key == b"content" {
                    content = Some(value);
                }
            });
            unescape(content.unwrap_or_default(), text)?;
        }
    }
    Ok(())
}

/// Looks for the text as one vendor spells it today and reads nothing else of the event: another
/// order of the fields, or a space more, and it finds nothing.
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

/// Each key of an object, without its quotes, and its value as it is written.
fn fields<'a>(object: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
    let mut at = skip_space(object, 0) + 1;
    loop {
        at = skip_space(object, at);
        if object.get(at) != Some(&b'"') {
            return;
        }
        let key = at + 1;
        at = string(object, key);
        let Some(name) = object.get(key..at.saturating_sub(1)) else { return };
        // The colon.
        at = skip_space(object, skip_space(object, at) + 1);
        let begin = at;
        at = value(object, at);
        let Some(found) = object.get(begin..at) else { return };
        each(name, found);
        at = skip_space(object, at);
        if object.get(at) != Some(&b',') {
            return;
        }
        at += 1;
    }
}

fn skip_space(data: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = data.get(at) {
        at += 1;
    }
    at
}

/// Where the string ends whose first byte is here, after its last quote.
fn string(data: &[u8], mut at: usize) -> usize {
    while let Some(more) = data.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += more + 1;
        if data.get(at - 1) == Some(&b'"') {
            return at;
        }
        at += 1;
    }
    data.len()
}

/// Where the value ends that begins here.
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

/// Appends what a string says; `written` begins at its first quote. What is no string says nothing.
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
