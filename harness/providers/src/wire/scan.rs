//! Finds the members of a JSON object without parsing their values.
//!
//! The JSON must be valid, because the scan does not check the syntax. The scan returns `None` for unusual JSON.

/// Scans the object at the beginning of `json`. `each` gets the name of a member, and the JSON from the member's value
/// to the end of `json`. It must return the length of the value: see [`skip`] and [`value`]. Returns the length of the
/// object, or `None` if the object is unusual or `each` returns `None`.
pub(super) fn object<'a>(
    json: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Option<usize>,
) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = expect(bytes, 0, b'{')?;
    loop {
        let start = expect(bytes, after_space(bytes, at), b'"')?;
        // A name with an escape stops the scan, because the name may be relevant.
        let end = start.checked_add(plain(bytes.get(start..)?)?)?;
        at = expect(bytes, end, b'"')?;
        at = after_space(bytes, expect(bytes, after_space(bytes, at), b':')?);
        at = at.checked_add(each(json.get(start..end)?, json.get(at..)?)?)?;
        at = after_space(bytes, at);
        match bytes.get(at)? {
            b',' => at = at.checked_add(1)?,
            b'}' => return at.checked_add(1),
            _ => return None,
        }
    }
}

/// Scans a list with exactly one object, as [`object`] scans the object.
pub(super) fn only<'a>(
    json: &'a str,
    each: impl FnMut(&'a str, &'a str) -> Option<usize>,
) -> Option<usize> {
    let bytes = json.as_bytes();
    let start = after_space(bytes, expect(bytes, 0, b'[')?);
    let end = start.checked_add(object(json.get(start..)?, each)?)?;
    expect(bytes, after_space(bytes, end), b']')
}

/// The length of the value at the beginning of `json`.
pub(super) fn skip(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    match bytes.first()? {
        b'"' => string_end(bytes, 0),
        b'{' | b'[' => nested_end(bytes),
        _ => {
            let is_end = |b: &u8| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace();
            bytes.iter().position(is_end).filter(|length| *length > 0)
        }
    }
}

/// Stores the value at the beginning of `json` in `kept`, and returns the value's length.
pub(super) fn value<'a>(json: &'a str, kept: &mut &'a str) -> Option<usize> {
    let length = skip(json)?;
    *kept = json.get(..length)?;
    Some(length)
}

/// The length of `null`, if `json` begins with `null`.
pub(super) fn null(json: &str) -> Option<usize> {
    json.starts_with("null").then_some(4)
}

fn expect(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    (*bytes.get(at)? == byte).then(|| at.saturating_add(1))
}

fn after_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at = at.saturating_add(1);
    }
    at
}

/// The index after the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let start = at.checked_add(1)?;
    start.checked_add(inner(bytes.get(start..)?)?)?.checked_add(1)
}

/// The length of the string up to its closing quote; `None` for a string with an escape.
pub(super) fn plain(bytes: &[u8]) -> Option<usize> {
    let length = stop(bytes)?;
    (*bytes.get(length)? == b'"').then_some(length)
}

/// The length of the string up to its closing quote, with or without escapes.
pub(super) fn inner(bytes: &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    loop {
        length = length.checked_add(stop(bytes.get(length..)?)?)?;
        match bytes.get(length)? {
            b'"' => return Some(length),
            b'\\' => length = length.checked_add(2)?,
            _ => return None,
        }
    }
}

/// The index of the first quote, backslash or control character. Checks eight bytes at a time, because most strings of
/// an event are too short for a vectorized search.
fn stop(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // Sets the high bit of each byte below the limit. Only the lowest set bit is reliable.
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
        let quote = below(word ^ (ONES * 0x22), 1);
        let escape = below(word ^ (ONES * 0x5c), 1);
        let found = (quote | escape | below(word, 0x20)) & HIGH;
        if found != 0 {
            let byte = usize::try_from(found.trailing_zeros() / 8).ok()?;
            return at.checked_mul(8)?.checked_add(byte);
        }
    }
    let at = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
    words.len().checked_mul(8)?.checked_add(at)
}

/// The index after the object or list at the beginning of `bytes`.
fn nested_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth = depth.checked_add(1)?,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at = at.checked_add(1)?;
        if depth == 0 {
            return Some(at);
        }
    }
}
