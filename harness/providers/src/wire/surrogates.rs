//! Joins characters that a server has split between two deltas. Some servers split texts as UTF-16. Such a server may
//! send the first surrogate of a character at the end of one delta (`"ab\ud83d"`), and the second surrogate at the
//! beginning of the next delta (`"\ude42cd"`). JSON allows lone surrogates, but a Rust string cannot contain a
//! surrogate.
//!
//! Before a dialect reads an event, two other characters replace each lone surrogate. Dialects treat these two
//! characters like any other text. The event sink then joins the surrogates: see [`SurrogateHalves`].

use std::borrow::Cow;

use memchr::memchr;

use harness_core::{message::replace_lone_surrogates, provider::StreamEvent};

/// The first of the two characters that represent a lone surrogate: a noncharacter, which Unicode reserves for internal
/// use.
const MARK: char = '\u{10FFFF}';

/// The second of the two characters is a private-use character: its code is the code of the surrogate plus this number.
const ABOVE: u32 = 0x10_0000;

const FIRST: std::ops::RangeInclusive<u16> = 0xd800..=0xdbff;
const SECOND: std::ops::RangeInclusive<u16> = 0xdc00..=0xdfff;

/// Replaces each lone surrogate in the JSON of an event by two characters: `MARK` and a private-use character. `None`
/// if the JSON has no lone surrogate.
pub(super) fn marked(json: &str) -> Option<String> {
    replace_lone_surrogates(json, |half, out| {
        out.push(MARK);
        let stands = char::from_u32(ABOVE.saturating_add(u32::from(half)));
        out.push(stands.unwrap_or(char::REPLACEMENT_CHARACTER));
    })
}

/// Decodes UTF-8. A surrogate in the byte format of UTF-8 becomes a JSON escape. U+FFFD replaces other invalid bytes.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some(at) = memchr(0xed, rest) {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        rest = match from {
            [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, rest @ ..] => {
                let half = 0xd000 | (u16::from(*second & 0x3f) << 6) | u16::from(*third & 0x3f);
                out.extend_from_slice(format!(r"\u{half:04x}").as_bytes());
                rest
            }
            [first, rest @ ..] => {
                out.push(*first);
                rest
            }
            [] => from,
        };
    }
    out.extend_from_slice(rest);
    String::from_utf8_lossy(&out).into_owned()
}

/// A character of a text, or a lone surrogate that two characters represent.
enum MarkedPiece {
    Char(char),
    Half(u16),
}

fn pieces(text: &str) -> impl Iterator<Item = MarkedPiece> + '_ {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let char = chars.next()?;
        let half = chars.peek().filter(|_| char == MARK).and_then(|next| {
            let half = u16::try_from(u32::from(*next).checked_sub(ABOVE)?).ok()?;
            (FIRST.contains(&half) || SECOND.contains(&half)).then_some(half)
        });
        Some(match half {
            Some(half) => {
                chars.next();
                MarkedPiece::Half(half)
            }
            None => MarkedPiece::Char(char),
        })
    })
}

/// Joins the surrogates in `text`. `held` is a first surrogate from the end of the previous piece. Returns the joined
/// text, and a first surrogate at the end of `text`. Any other lone surrogate becomes U+FFFD.
fn join(mut held: Option<u16>, text: &str) -> (String, Option<u16>) {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        let first = held.take();
        if let (Some(first), MarkedPiece::Half(second)) = (first, &piece)
            && SECOND.contains(second)
        {
            let units = char::decode_utf16([first, *second]);
            out.extend(units.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
            continue;
        }
        // The next character is not a second surrogate, so the held surrogate is alone.
        out.extend(first.map(|_| char::REPLACEMENT_CHARACTER));
        match piece {
            MarkedPiece::Char(char) => out.push(char),
            MarkedPiece::Half(half) if FIRST.contains(&half) => held = Some(half),
            MarkedPiece::Half(_) => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    (out, held)
}

fn has_marks(text: &str) -> bool {
    let mut rest = text.as_bytes();
    // A search for one byte is fast, and few texts contain the first byte of a mark.
    while let Some(found) = memchr(b'\xf4', rest).and_then(|at| rest.get(at..)) {
        if found.starts_with("\u{10FFFF}".as_bytes()) {
            return true;
        }
        rest = found.get(1..).unwrap_or_default();
    }
    false
}

/// Joins the surrogates in a complete text.
pub(super) fn joined(text: &str) -> Cow<'_, str> {
    if !has_marks(text) {
        return Cow::Borrowed(text);
    }
    let (mut whole, held) = join(None, text);
    whole.extend(held.map(|_| char::REPLACEMENT_CHARACTER));
    Cow::Owned(whole)
}

/// Removes a first surrogate at the end of the text, because its second surrogate may follow later.
pub(super) fn without_last(text: &str) -> &str {
    let mut chars = text.chars();
    let half = chars.next_back().map(u32::from).and_then(|char| char.checked_sub(ABOVE));
    let is_half = half.is_some_and(|half| (0xd800..=0xdbff).contains(&half));
    match chars.next_back() {
        Some(MARK) if is_half => chars.as_str(),
        _ => text,
    }
}

/// Turns the marked surrogates in the JSON back into escapes.
pub(super) fn escaped(json: &str) -> Cow<'_, str> {
    if !has_marks(json) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for piece in pieces(json) {
        match piece {
            MarkedPiece::Char(char) => out.push(char),
            MarkedPiece::Half(half) => out.push_str(&format!(r"\u{half:04x}")),
        }
    }
    Cow::Owned(out)
}

/// The part of a block to which a text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextOwner {
    Text,
    Reasoning,
    Arguments,
}

impl TextOwner {
    /// The event for a piece of this text.
    #[inline]
    pub(super) fn delta(self, block: u32, text: String) -> StreamEvent {
        match self {
            Self::Text => StreamEvent::TextDelta { block, text },
            Self::Reasoning => StreamEvent::ReasoningDelta { block, text },
            Self::Arguments => StreamEvent::ToolCallDelta { block, json: text },
        }
    }
}

/// The first surrogates of an answer, until the matching second surrogates arrive.
#[derive(Debug, Default)]
pub(super) struct SurrogateHalves {
    /// Whether the answer contains a lone surrogate. Without a lone surrogate, the decoder does not search texts for
    /// marks.
    pub(super) seen: bool,
    held: Vec<(u32, TextOwner, u16)>,
}

impl SurrogateHalves {
    /// Joins the surrogates in the next piece of a text. Stores a first surrogate at the end of the piece for the next
    /// piece.
    pub(super) fn join(&mut self, block: u32, of: TextOwner, text: &str) -> String {
        let held = self.take(block, of);
        let (whole, held) = join(held, text);
        if let Some(held) = held {
            self.held.push((block, of, held));
        }
        whole
    }

    /// Removes and returns the stored surrogate of this text.
    pub(super) fn take(&mut self, block: u32, of: TextOwner) -> Option<u16> {
        let at = self.held.iter().position(|held| (held.0, held.1) == (block, of))?;
        Some(self.held.swap_remove(at).2)
    }

    /// Removes any stored surrogate, and returns the surrogate's block and part.
    pub(super) fn next(&mut self) -> Option<(u32, TextOwner)> {
        (!self.held.is_empty()).then(|| self.held.remove(0)).map(|(block, of, _)| (block, of))
    }
}
