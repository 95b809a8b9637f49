//! Replaces ids and names of calls that a vendor does not accept. The same input always gets the same replacement.

use std::borrow::Cow;

/// The id for a vendor that accepts up to `limit` letters, digits, `_` and `-`. Replaces any other id.
pub(super) fn id(given: &str, limit: usize) -> Cow<'_, str> {
    if !given.is_empty() && given.len() <= limit && given.bytes().all(is_plain) {
        return Cow::Borrowed(given);
    }
    let mark = format!("_{:08x}", hash(given) & 0xffff_ffff);
    let room = limit.saturating_sub(mark.len());
    let mut id: String = given.chars().map(plain).take(room).collect();
    if id.is_empty() {
        id.push_str("call");
    }
    id.push_str(&mark);
    Cow::Owned(id)
}

/// The id for a vendor that accepts exactly nine letters and digits. Replaces any other id.
pub(super) fn nine(given: &str) -> Cow<'_, str> {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if given.len() == 9 && given.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Cow::Borrowed(given);
    }
    let mut left = hash(given);
    let mut id = String::with_capacity(9);
    for _ in 0..9 {
        let digit = usize::try_from(left % 62).ok().and_then(|at| DIGITS.get(at)).unwrap_or(&b'0');
        id.push(char::from(*digit));
        left /= 62;
    }
    Cow::Owned(id)
}

/// The name of a tool in a form that vendors accept. The model may have called a tool that does not exist, so the name
/// may contain anything.
pub(super) fn tool(given: &str) -> Cow<'_, str> {
    if !given.is_empty() && given.len() <= 64 && given.bytes().all(is_plain) {
        return Cow::Borrowed(given);
    }
    let name: String = given.chars().map(plain).take(64).collect();
    Cow::Owned(if name.is_empty() { "unknown".to_owned() } else { name })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn plain(given: char) -> char {
    if u8::try_from(given).is_ok_and(is_plain) { given } else { '_' }
}

/// FNV-1a with a final mixing step: a short function with the same results on every machine and in every version.
pub(super) fn hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
