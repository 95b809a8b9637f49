//! Finds the members of a JSON object without reading them.
//!
//! What it finds in valid JSON is right; that the JSON is valid it does not check, and where
//! anything is unusual it gives up.

/// Walks over the object at the beginning of `json`. `each` is given the name of a member and
/// all that follows, beginning with its value, and says how long the value is: see [`skip`] and
/// [`value`]. Returns how long the object is, or nothing if somebody gave up.
pub(super) fn object<'a>(
    json: &'a str,
    mut each: impl FnMut(&'a str, &'a str) -> Option<usize>,
) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = expect(bytes, 0, b'{')?;
    loop {
        let start = expect(bytes, after_space(bytes, at), b'"')?;
        // A name with an escape in it is none of those that matter, and may be one in disguise.
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

/// The same for a list that holds one object and nothing else.
pub(super) fn only<'a>(
    json: &'a str,
    each: impl FnMut(&'a str, &'a str) -> Option<usize>,
) -> Option<usize> {
    let bytes = json.as_bytes();
    let start = after_space(bytes, expect(bytes, 0, b'[')?);
    let end = start.checked_add(object(json.get(start..)?, each)?)?;
    expect(bytes, after_space(bytes, end), b']')
}

/// How long the value at the beginning of `json` is.
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

/// Keeps the value at the beginning of `json`, and says how long it is.
pub(super) fn value<'a>(json: &'a str, kept: &mut &'a str) -> Option<usize> {
    let length = skip(json)?;
    *kept = json.get(..length)?;
    Some(length)
}

/// How long the value at the beginning of `json` is, if it is `null`.
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

/// The place after the string that begins here.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let start = at.checked_add(1)?;
    start.checked_add(inner(bytes.get(start..)?)?)?.checked_add(1)
}

/// How long the text is that begins here, up to the quote that ends it, if nothing in it is
/// escaped.
pub(super) fn plain(bytes: &[u8]) -> Option<usize> {
    let length = stop(bytes)?;
    (*bytes.get(length)? == b'"').then_some(length)
}

/// The same, where something may be escaped.
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

/// Where the first byte is that a text cannot hold as it is: a quote, a backslash, a control
/// character. Most texts of an event are too short for what it costs to begin a search with
/// vectors: eight bytes at a time are the faster.
fn stop(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of a byte that is below; of the lowest one found it is exact.
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

/// The place after the object or list that begins `bytes`.
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
