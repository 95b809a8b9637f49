//! Walks over JSON once and picks up what is wanted on the way.
//!
//! All of the syntax is checked, also of what is stepped over, and nothing is copied but a text with
//! escapes in it. Where the JSON is wrong, or unusual, the walk ends with nothing: then somebody else
//! reads it, and says what it is. The bytes need not be UTF-8 where nobody looks at them.

use std::{borrow::Cow, ops::Range};

/// So deep may lists and objects be nested in what is stepped over.
const DEEPEST: u32 = 60;

/// A place in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    rest: &'a [u8],
}

/// What stands between the quotes of a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a> {
    pub(super) written: &'a [u8],
    pub(super) is_escaped: bool,
}

/// Members that were seen. None may come twice.
#[derive(Default)]
pub(super) struct Once(u32);

impl Once {
    pub(super) fn see(&mut self, member: u32) -> Option<()> {
        let known = self.0;
        self.0 |= 1 << member;
        (known != self.0).then_some(())
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(json: &'a [u8]) -> Self {
        Self { rest: json }
    }

    pub(super) fn step(&mut self, by: usize) {
        self.rest = self.rest.get(by..).unwrap_or_default();
    }

    /// The first byte that is no white space.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            match self.rest {
                [b' ' | b'\n' | b'\t' | b'\r', rest @ ..] => self.rest = rest,
                [byte, ..] => return Some(*byte),
                [] => return None,
            }
        }
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        if self.next()? != byte {
            return None;
        }
        self.step(1);
        Some(())
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Option<()> {
        self.next().is_none().then_some(())
    }

    /// Walks over an object. `each` is given the name of a member, and walks over its value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.next()? == b'}' {
            self.step(1);
            return Some(());
        }
        loop {
            let name = self.name()?;
            each(self, name)?;
            match self.next()? {
                b',' => self.step(1),
                b'}' => {
                    self.step(1);
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Walks over a list. `each` walks over one element.
    #[inline]
    pub(super) fn list(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.next()? == b']' {
            self.step(1);
            return Some(());
        }
        loop {
            each(self)?;
            match self.next()? {
                b',' => self.step(1),
                b']' => {
                    self.step(1);
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// The name of a member, and the colon. A name with an escape in it may be one that matters, in
    /// disguise.
    #[inline]
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let name = self.plain()?;
        self.expect(b':')?;
        Some(name)
    }

    /// A string in which nothing is escaped.
    #[inline]
    pub(super) fn plain(&mut self) -> Option<&'a [u8]> {
        let Quoted { written, is_escaped } = self.quoted()?;
        (!is_escaped).then_some(written)
    }

    /// What a string says.
    pub(super) fn text(&mut self) -> Option<Cow<'a, str>> {
        let Quoted { written, is_escaped } = self.quoted()?;
        let text = std::str::from_utf8(written).ok()?;
        match is_escaped {
            false => Some(Cow::Borrowed(text)),
            true => unescaped(text).map(Cow::Owned),
        }
    }

    /// What a string says; nothing, where `null` stands for one.
    pub(super) fn text_or_null(&mut self) -> Option<Cow<'a, str>> {
        match self.next()? {
            b'"' => self.text(),
            _ => self.literal("null").map(|()| Cow::Borrowed("")),
        }
    }

    /// Steps over a string, or over `null`. What is escaped in it must be whole characters.
    pub(super) fn skip_text(&mut self) -> Option<()> {
        if self.next()? != b'"' {
            return self.literal("null");
        }
        let Quoted { written, is_escaped } = self.quoted()?;
        match is_escaped {
            false => Some(()),
            true => unescaped(std::str::from_utf8(written).ok()?).map(drop),
        }
    }

    #[inline]
    pub(super) fn quoted(&mut self) -> Option<Quoted<'a>> {
        self.expect(b'"')?;
        let start = self.rest;
        let mut length = 0_usize;
        let mut is_escaped = false;
        loop {
            length = length.checked_add(special(start.get(length..)?)?)?;
            match start.get(length)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    length = length.checked_add(escape(start.get(length..)?)?)?;
                }
                _ => return None,
            }
        }
        let (written, rest) = start.split_at_checked(length)?;
        self.rest = rest.get(1..)?;
        Some(Quoted { written, is_escaped })
    }

    pub(super) fn literal(&mut self, word: &str) -> Option<()> {
        self.next();
        self.rest = self.rest.strip_prefix(word.as_bytes())?;
        Some(())
    }

    /// A whole number.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.next();
        let (length, is_whole) = number(self.rest)?;
        let (digits, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        std::str::from_utf8(digits).ok().filter(|_| is_whole)?.parse().ok()
    }

    /// Steps over a value, with all that is nested in it, and gives what it was made of.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        self.next();
        let start = self.rest;
        self.skip()?;
        start.get(..start.len().checked_sub(self.rest.len())?)
    }

    /// Steps over a value, with all that is nested in it.
    pub(super) fn skip(&mut self) -> Option<()> {
        // One bit for each object or list that is open: whether it is an object.
        let (mut open, mut depth) = (0_u64, 0_u32);
        loop {
            match self.next()? {
                b'"' => drop(self.quoted()?),
                first @ (b'{' | b'[') => {
                    self.step(1);
                    let is_object = first == b'{';
                    depth = depth.checked_add(1).filter(|depth| *depth <= DEEPEST)?;
                    open = (open << 1) | u64::from(is_object);
                    match (self.next()?, is_object) {
                        (b'}', true) | (b']', false) => {}
                        (_, true) => {
                            self.quoted()?;
                            self.expect(b':')?;
                            continue;
                        }
                        (_, false) => continue,
                    }
                }
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                _ => {
                    let (length, _) = number(self.rest)?;
                    self.step(length);
                }
            }
            // A value ends here, or what is open is empty.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let is_object = open & 1 == 1;
                let byte = self.next()?;
                self.step(1);
                match (byte, is_object) {
                    (b'}', true) | (b']', false) => {
                        open >>= 1;
                        depth = depth.saturating_sub(1);
                    }
                    (b',', true) => {
                        self.quoted()?;
                        self.expect(b':')?;
                        break;
                    }
                    (b',', false) => break,
                    _ => return None,
                }
            }
        }
    }
}

/// How long the number is that begins here, and whether it is a whole one.
fn number(bytes: &[u8]) -> Option<(usize, bool)> {
    let digits = |at: usize| {
        let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        at.checked_add(count).filter(|_| count > 0)
    };
    let mut at = usize::from(bytes.first()? == &b'-');
    let mut is_whole = at == 0;
    let first = *bytes.get(at)?;
    let end = digits(at)?;
    if first == b'0' && end != at.checked_add(1)? {
        return None;
    }
    at = end;
    if bytes.get(at) == Some(&b'.') {
        is_whole = false;
        at = digits(at.checked_add(1)?)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        is_whole = false;
        at = at.checked_add(1)?;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at = at.checked_add(1)?;
        }
        at = digits(at)?;
    }
    Some((at, is_whole))
}

/// How long the escape is that begins here.
fn escape(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// Where the first byte is that a string cannot hold as it is: a quote, a backslash, a control
/// character. Most strings of an event are so short that to begin a search with vectors costs more
/// than it saves: eight bytes at a time are faster.
#[inline]
fn special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut before = 0_usize;
    for word in words {
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte that is below. Of the lowest one that is found it is exact.
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
        let quote = below(word ^ (ONES * 0x22), 1);
        let escape = below(word ^ (ONES * 0x5c), 1);
        let found = (quote | escape | below(word, 0x20)) & HIGH;
        if found != 0 {
            let byte = usize::try_from(found.trailing_zeros() / 8).ok()?;
            return before.checked_add(byte);
        }
        before = before.checked_add(8)?;
    }
    let at = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
    before.checked_add(at)
}

/// What the text says, of which something is escaped.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut after = escape.chars();
        out.push(match after.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            same @ ('"' | '\\' | '/') => same,
            _ => {
                let (char, length) = unicode(escape)?;
                after = escape.get(length..)?.chars();
                char
            }
        });
        rest = after.as_str();
    }
    out.push_str(rest);
    Some(out)
}

/// The character that is escaped by its number, as `u00e9`, or by those of its two halves, as
/// `ud83d\ude00`, and how long that is. Half a character is none.
fn unicode(escape: &str) -> Option<(char, usize)> {
    let unit = |at: Range<usize>| u16::from_str_radix(escape.get(at)?, 16).ok();
    let first = unit(1..5).filter(|_| escape.starts_with('u'))?;
    if let Some(char) = char::from_u32(first.into()) {
        return Some((char, 5));
    }
    let second = unit(7..11).filter(|_| escape.get(5..7) == Some("\\u"))?;
    char::decode_utf16([first, second]).next()?.ok().map(|char| (char, 11))
}
