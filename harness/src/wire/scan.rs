//! Finds the members of a JSON object without reading them: nearly all events of a stream are
//! one kind of delta, of which one or two members matter.
//!
//! Where anything is unusual it gives up, and the event is read in full. What it finds in valid
//! JSON is right; that the JSON is valid it does not check.

use std::borrow::Cow;

use memchr::{memchr2, memchr3};

/// Hands over each member of the object `json`: its name and its value as JSON. Says whether the
/// object was walked to its end.
pub(super) fn members<'a>(json: &'a str, mut each: impl FnMut(&'a str, &'a str)) -> bool {
    walk(json, &mut each).is_some()
}

fn walk<'a>(json: &'a str, each: &mut impl FnMut(&'a str, &'a str)) -> Option<()> {
    let bytes = json.as_bytes();
    let mut at = after_space(bytes, 0);
    at = expect(bytes, at, b'{')?;
    loop {
        let start = expect(bytes, at, b'"')?;
        let end = start.checked_add(memchr2(b'"', b'\\', bytes.get(start..)?)?)?;
        // A name with an escape in it is none of those that matter, and may be one in disguise.
        at = expect(bytes, end, b'"')?;
        at = expect(bytes, after_space(bytes, at), b':')?;
        at = after_space(bytes, at);
        let value_end = value_end(bytes, at)?;
        each(json.get(start..end)?, json.get(at..value_end)?);
        at = after_space(bytes, value_end);
        match bytes.get(at)? {
            b',' => at = after_space(bytes, at.checked_add(1)?),
            b'}' => {
                let rest = bytes.get(at.checked_add(1)?..)?;
                return rest.iter().all(u8::is_ascii_whitespace).then_some(());
            }
            _ => return None,
        }
    }
}

/// The text of a value that is a string; nothing if it is something else.
pub(super) fn text(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

/// The one element of a list that has one.
pub(super) fn only(json: &str) -> Option<&str> {
    let inner = json.strip_prefix('[')?.strip_suffix(']')?.trim();
    (value_end(inner.as_bytes(), 0)? == inner.len()).then_some(inner)
}

fn expect(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*bytes.get(at)? == byte).then(|| at.checked_add(1)).flatten()
}

fn after_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at = at.saturating_add(1);
    }
    at
}

fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => nested_end(bytes, at),
        _ => {
            let is_end = |b: &u8| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace();
            let rest = bytes.get(at..)?;
            let length = rest.iter().position(is_end).unwrap_or(rest.len());
            (length > 0).then(|| at.checked_add(length)).flatten()
        }
    }
}

/// The place after the string that begins here.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at.checked_add(1)?;
    loop {
        at = at.checked_add(memchr2(b'"', b'\\', bytes.get(at..)?)?)?;
        match bytes.get(at)? {
            b'"' => return at.checked_add(1),
            _ => at = at.checked_add(2)?,
        }
    }
}

/// The place after the object or list that begins here.
fn nested_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (open, close) = match bytes.get(at)? {
        b'{' => (b'{', b'}'),
        _ => (b'[', b']'),
    };
    let mut at = at;
    let mut depth = 0_usize;
    loop {
        at = at.checked_add(memchr3(open, close, b'"', bytes.get(at..)?)?)?;
        let byte = *bytes.get(at)?;
        if byte == b'"' {
            at = string_end(bytes, at)?;
            continue;
        }
        at = at.checked_add(1)?;
        if byte == open {
            depth = depth.checked_add(1)?;
        } else {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}
