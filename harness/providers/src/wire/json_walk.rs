//! Reads the wanted parts of JSON in one pass.
//!
//! The syntax is checked everywhere, also in skipped values. Only texts with escapes are copied. Methods return `None`
//! for invalid or unusual JSON, and the caller then uses a complete parser. Skipped bytes need not be UTF-8.

use std::{borrow::Cow, ops::Range};

/// The maximum nesting depth of skipped lists and objects.
const DEEPEST: u32 = 60;

/// A position in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonWalk<'a> {
    json: &'a [u8],
    at: usize,
}

/// The members seen so far, as a bit set. No member may occur twice.
#[derive(Default)]
pub(super) struct SeenMembers(u32);

impl SeenMembers {
    pub(super) fn see(&mut self, member: u32) -> Option<()> {
        let known = self.0;
        self.0 |= 1 << member;
        (known != self.0).then_some(())
    }
}

impl<'a> JsonWalk<'a> {
    pub(super) fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    pub(super) fn step(&mut self, by: usize) {
        self.at += by;
    }

    /// The position: the number of read bytes.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The bytes from `place` to the current position.
    pub(super) fn since(&self, place: usize) -> Option<&'a [u8]> {
        self.json.get(place..self.at)
    }

    /// The bytes that are not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.json.get(self.at..).unwrap_or_default()
    }

    /// Skips white space, and returns the next byte without skipping this byte.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            match *self.json.get(self.at)? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        if self.next()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Succeeds if only white space is left.
    pub(super) fn end(&mut self) -> Option<()> {
        self.next().is_none().then_some(())
    }

    /// Reads an object. `each` gets the name of a member, and must read or skip the value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.next()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.name()?;
            each(self, name)?;
            if !self.next_or_end(b'}')? {
                return Some(());
            }
        }
    }

    /// Like [`object`](Self::object), but also accepts `null`. Returns whether the value was an object.
    #[inline]
    pub(super) fn object_or_null(
        &mut self,
        each: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<bool> {
        match self.next()? {
            b'n' => self.literal("null").map(|()| false),
            _ => self.object(each).map(|()| true),
        }
    }

    /// Skips exactly these bytes.
    #[inline]
    pub(super) fn same(&mut self, written: &[u8]) -> Option<()> {
        if !self.json.get(self.at..)?.starts_with(written) {
            return None;
        }
        self.at += written.len();
        Some(())
    }

    /// Like [`list`](Self::list), but also accepts `null`.
    #[inline]
    pub(super) fn list_or_null(&mut self, each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        match self.next()? {
            b'n' => self.literal("null"),
            _ => self.list(each),
        }
    }

    /// Reads a list. `each` must read or skip one element.
    #[inline]
    pub(super) fn list(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.next()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            each(self)?;
            if !self.next_or_end(b']')? {
                return Some(());
            }
        }
    }

    /// Skips one byte after an element or member. Returns `true` for a comma, and `false` for the end of the list or
    /// object.
    #[inline]
    fn next_or_end(&mut self, end: u8) -> Option<bool> {
        let byte = self.next()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte if byte == end => Some(false),
            _ => None,
        }
    }

    /// Reads the name of a member, and the colon. Fails for a name with an escape, which may be a relevant name.
    #[inline]
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.plain()?;
        self.expect(b':')?;
        Some(name)
    }

    /// Reads a string without escapes.
    #[inline]
    pub(super) fn plain(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        let end = special(self.json, start)?;
        if *self.json.get(end)? != b'"' {
            return None;
        }
        self.at = end + 1;
        self.json.get(start..end)
    }

    /// Reads a string, and decodes its escapes.
    pub(super) fn text(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.at;
        let is_escaped = self.string()?;
        let text = std::str::from_utf8(self.json.get(start..self.at - 1)?).ok()?;
        match is_escaped {
            false => Some(Cow::Borrowed(text)),
            true => unescaped(text).map(Cow::Owned),
        }
    }

    /// Reads a string; empty for `null`.
    pub(super) fn text_or_null(&mut self) -> Option<Cow<'a, str>> {
        match self.next()? {
            b'"' => self.text(),
            _ => self.literal("null").map(|()| Cow::Borrowed("")),
        }
    }

    /// Skips the rest of a string after the opening quote. Returns whether the string contains escapes.
    #[inline]
    fn string(&mut self) -> Option<bool> {
        let end = special(self.json, self.at)?;
        if *self.json.get(end)? == b'"' {
            self.at = end + 1;
            return Some(false);
        }
        self.escaped_string(end).map(|()| true)
    }

    /// Skips the rest of a string. `at` is the position of the first escape or invalid character.
    #[inline(never)]
    fn escaped_string(&mut self, mut at: usize) -> Option<()> {
        loop {
            match *self.json.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(());
                }
                b'\\' => at = special(self.json, at + escape(self.json.get(at..)?)?)?,
                _ => return None,
            }
        }
    }

    /// Skips a string or `null`, for a member that the parser reads as text. `skip` also accepts other values, such as
    /// the number `1e400`, which the parser refuses.
    #[inline]
    pub(super) fn skip_text(&mut self) -> Option<()> {
        match self.next()? {
            b'"' => {
                self.at += 1;
                self.string().map(drop)
            }
            _ => self.literal("null"),
        }
    }

    #[inline]
    pub(super) fn literal(&mut self, word: &str) -> Option<()> {
        self.next();
        self.same(word.as_bytes())
    }

    /// Reads a non-negative integer that fits into `u64`.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        self.next();
        let start = self.at;
        let (mut at, mut number) = (start, 0_u64);
        while let Some(digit) = self.json.get(at).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            number = number.wrapping_mul(10).wrapping_add(digit.into());
            at += 1;
        }
        let is_plain = match at - start {
            0 => false,
            1 => true,
            length => length < 20 && *self.json.get(start)? != b'0',
        };
        if !is_plain || matches!(self.json.get(at), Some(b'.' | b'e' | b'E')) {
            return self.long_number();
        }
        self.at = at;
        Some(number)
    }

    #[cold]
    fn long_number(&mut self) -> Option<u64> {
        let start = self.at;
        if !self.skip_number()? {
            return None;
        }
        std::str::from_utf8(self.json.get(start..self.at)?).ok()?.parse().ok()
    }

    /// Reads a non-negative integer; `Some(None)` for `null`.
    pub(super) fn number_or_null(&mut self) -> Option<Option<u64>> {
        match self.next()? {
            b'n' => self.literal("null").map(|()| None),
            _ => self.number().map(Some),
        }
    }

    /// Skips a number. Returns whether the number is a non-negative integer.
    #[inline]
    fn skip_number(&mut self) -> Option<bool> {
        let mut at = self.at;
        let is_digit = |at: usize| self.json.get(at).is_some_and(u8::is_ascii_digit);
        let mut is_whole = true;
        if *self.json.get(at)? == b'-' {
            is_whole = false;
            at += 1;
        }
        if !is_digit(at) {
            return None;
        }
        let has_zero = *self.json.get(at)? == b'0';
        at += 1;
        if has_zero && is_digit(at) {
            return None;
        }
        while is_digit(at) {
            at += 1;
        }
        if let Some(b'.' | b'e' | b'E') = self.json.get(at) {
            is_whole = false;
            at = fraction(self.json, at)?;
        }
        self.at = at;
        Some(is_whole)
    }

    /// Skips a value and everything in it, and returns its bytes.
    #[inline]
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        self.next();
        let start = self.at;
        self.skip()?;
        self.json.get(start..self.at)
    }

    /// Skips a value and everything in it.
    #[inline]
    pub(super) fn skip(&mut self) -> Option<()> {
        match self.next()? {
            b'"' => {
                self.at += 1;
                self.string().map(drop)
            }
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    /// Skips a number or a literal.
    #[inline]
    fn skip_scalar(&mut self) -> Option<()> {
        match *self.json.get(self.at)? {
            b'n' => self.literal("null"),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            _ => self.skip_number().map(drop),
        }
    }

    /// Skips a list or an object and everything in it.
    fn skip_nested(&mut self) -> Option<()> {
        // One bit for each open list (0) or object (1).
        let (mut open, mut depth) = (0_u64, 0_u32);
        loop {
            match self.next()? {
                b'"' => {
                    self.at += 1;
                    self.string()?;
                }
                first @ (b'{' | b'[') => {
                    self.at += 1;
                    let is_object = first == b'{';
                    depth += 1;
                    if depth > DEEPEST {
                        return None;
                    }
                    open = (open << 1) | u64::from(is_object);
                    match (self.next()?, is_object) {
                        (b'}', true) | (b']', false) => {}
                        (_, true) => {
                            self.skip_name()?;
                            continue;
                        }
                        (_, false) => continue,
                    }
                }
                _ => self.skip_scalar()?,
            }
            // Skip the closing bytes after a value, or of an empty list or object.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let is_object = open & 1 == 1;
                let byte = self.next()?;
                self.at += 1;
                match (byte, is_object) {
                    (b'}', true) | (b']', false) => {
                        open >>= 1;
                        depth -= 1;
                    }
                    (b',', true) => {
                        self.skip_name()?;
                        break;
                    }
                    (b',', false) => break,
                    _ => return None,
                }
            }
        }
    }

    #[inline]
    fn skip_name(&mut self) -> Option<()> {
        self.expect(b'"')?;
        self.string()?;
        self.expect(b':')
    }
}

/// The index after a number. The number's fraction or exponent begins at `at`.
#[inline(never)]
fn fraction(json: &[u8], mut at: usize) -> Option<usize> {
    let digits = |at: usize| {
        let count = json.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(at + count)
    };
    if json.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = json.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = json.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

/// The length of the escape at the beginning of `bytes`.
fn escape(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// The index of the first quote, backslash or control character from `at` on. Checks eight bytes at a time, because
/// most strings of an event are too short for a vectorized search.
#[inline]
fn special(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => match special_in(*word) {
            0 => special_behind(json, at + 8),
            found => Some(at + found.trailing_zeros() as usize / 8),
        },
        None => special_behind(json, at),
    }
}

/// Continues the search of `special` in a longer string.
#[inline(never)]
fn special_behind(json: &[u8], mut at: usize) -> Option<usize> {
    while let Some(word) = json.get(at..).and_then(<[u8]>::first_chunk) {
        match special_in(*word) {
            0 => at += 8,
            found => return Some(at + found.trailing_zeros() as usize / 8),
        }
    }
    let tail = json.get(at..)?;
    tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20)).map(|found| at + found)
}

/// Sets the high bit of each quote, backslash and control character. Only the lowest set bit is reliable.
#[inline]
fn special_in(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES);
    let escape = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (quote | escape | control) & !word & (ONES << 7)
}

/// Decodes the escapes of a string.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    // Inside of a valid string, each special byte begins an escape.
    while let Some(at) = special(text.as_bytes(), start) {
        out.push_str(text.get(start..at)?);
        let mut length = 2;
        out.push(match *text.as_bytes().get(at + 1)? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            same @ (b'"' | b'\\' | b'/') => same.into(),
            _ => {
                let (char, digits) = unicode(text.get(at + 1..)?)?;
                length = digits + 1;
                char
            }
        });
        start = at + length;
    }
    out.push_str(text.get(start..)?);
    Some(out)
}

/// Decodes an escape with a code, such as `u00e9`, or with two surrogates, such as `ud83d\ude00`. Returns the character
/// and the length of the escape; `None` for a lone surrogate.
fn unicode(escape: &str) -> Option<(char, usize)> {
    let unit = |at: Range<usize>| u16::from_str_radix(escape.get(at)?, 16).ok();
    let first = unit(1..5).filter(|_| escape.starts_with('u'))?;
    if let Some(char) = char::from_u32(first.into()) {
        return Some((char, 5));
    }
    let second = unit(7..11).filter(|_| escape.get(5..7) == Some("\\u"))?;
    char::decode_utf16([first, second]).next()?.ok().map(|char| (char, 11))
}
