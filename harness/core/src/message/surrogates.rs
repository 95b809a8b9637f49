//! Lone surrogates: JSON allows an escape such as `\ud83d` outside of a pair, but a Rust string cannot contain a surrogate.

use std::borrow::Cow;

use memchr::memchr;

const FIRST: std::ops::RangeInclusive<u16> = 0xd800..=0xdbff;
const SECOND: std::ops::RangeInclusive<u16> = 0xdc00..=0xdfff;

/// The surrogate at the beginning of `text`, as an escape such as `\ud83d`; `None` if `text` does not begin with a
/// surrogate.
fn escaped_half(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (FIRST.contains(&unit) || SECOND.contains(&unit)).then_some(unit)
}

/// Replaces each escaped surrogate outside of a pair by the output of `write`. `None` if the JSON has no lone
/// surrogate.
#[doc(hidden)]
pub fn replace_lone_surrogates(json: &str, write: impl Fn(u16, &mut String)) -> Option<String> {
    let bytes = json.as_bytes();
    let (mut out, mut done, mut at) = (String::new(), 0, 0);
    let mut found = false;
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at = at.saturating_add(next);
        let Some(half) = bytes.get(at..).and_then(escaped_half) else {
            // Skips the escaped character, which may be a backslash too.
            at = at.saturating_add(2);
            continue;
        };
        let end = at.saturating_add(6);
        let other = bytes.get(end..).and_then(escaped_half);
        if FIRST.contains(&half) && other.is_some_and(|other| SECOND.contains(&other)) {
            at = end.saturating_add(6);
            continue;
        }
        found = true;
        out.push_str(json.get(done..at).unwrap_or_default());
        write(half, &mut out);
        (done, at) = (end, end);
    }
    found.then(|| {
        out.push_str(json.get(done..).unwrap_or_default());
        out
    })
}

/// Replaces each lone surrogate in the JSON by U+FFFD, so that every parser accepts the JSON.
#[doc(hidden)]
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let without = replace_lone_surrogates(json, |_, out| out.push(char::REPLACEMENT_CHARACTER));
    without.map_or(Cow::Borrowed(json), Cow::Owned)
}
