//! Reads events that resemble an earlier event. Most events of a stream differ from the previous event only in a text,
//! a number and some padding. Outside of these places, the decoder compares such an event with the earlier event byte
//! by byte, and does not parse the event.
//!
//! The earlier event was parsed, so the comparison gives the same result as parsing. All other events are parsed.

use std::{borrow::Cow, ops::Range};

use super::json_walk::JsonWalk;

/// A place in which events of one kind may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VaryingPlace {
    /// The relevant text, without its quotes.
    Text,
    /// A string whose content does not matter.
    Padding,
    /// An integer whose value does not matter.
    Number,
    /// Spaces outside of strings, which some servers add as padding.
    Spaces,
}

/// The places in an event in which other events of the same kind may differ. The dialect marks these places while it
/// reads the event.
#[derive(Debug)]
pub(crate) struct VaryingPlaces {
    /// The length of the event's data in bytes.
    size: usize,
    places: Vec<(Range<usize>, VaryingPlace)>,
}

impl VaryingPlaces {
    pub(super) fn of(event: &str) -> Self {
        Self { size: event.len(), places: Vec::new() }
    }

    /// Marks the next value as the relevant text. An event has only one relevant text.
    pub(super) fn text(&mut self, walk: &mut JsonWalk<'_>) -> Option<()> {
        let known = self.places.iter().any(|(_, place)| *place == VaryingPlace::Text);
        if known || walk.next()? != b'"' {
            return None;
        }
        let start = walk.place();
        walk.skip()?;
        self.places.push((inside(start..walk.place()), VaryingPlace::Text));
        Some(())
    }

    /// Marks the next value as a value that does not matter.
    pub(super) fn any(&mut self, walk: &mut JsonWalk<'_>) -> Option<()> {
        walk.next()?;
        let start = walk.place();
        let value = walk.value()?;
        if value.starts_with(b"\"") {
            self.places.push((inside(start..walk.place()), VaryingPlace::Padding));
        } else if value.iter().all(u8::is_ascii_digit) {
            self.places.push((start..walk.place(), VaryingPlace::Number));
        }
        Some(())
    }

    /// Marks the last place of an event: the spaces before the closing brace.
    pub(super) fn end(&mut self, event: &str) {
        let Some(inside) = event.strip_suffix('}') else { return };
        let (start, end) = (inside.trim_end_matches(' ').len(), inside.len());
        self.places.push((start..end, VaryingPlace::Spaces));
    }
}

/// The range of a string without its quotes.
fn inside(string: Range<usize>) -> Range<usize> {
    string.start.saturating_add(1)..string.end.saturating_sub(1)
}

/// The bytes that all events of one kind share, and the places between them.
#[derive(Debug)]
pub(super) struct EventShape {
    /// The event from which the shape was made.
    event: Box<[u8]>,
    /// For each place: its range, its kind, and whether another event had a different value there.
    places: Vec<(Range<usize>, VaryingPlace, bool)>,
    /// The shared bytes as ranges of `event`, each with the kind of the place after the range.
    parts: Vec<(Range<usize>, VaryingPlace)>,
    /// The start of the shared bytes after the last place.
    end: usize,
}

/// An event that matches a shape.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MatchedEvent<'a> {
    /// The relevant text.
    pub(super) text: Cow<'a, str>,
    /// The length of the event in bytes.
    pub(super) length: usize,
}

impl EventShape {
    /// Makes a shape from the bytes of an event, including the line ends. `before` is the previous shape. The event
    /// must be one line of data, which `places` describes; only a line with the event's name may precede the data. A
    /// place with the same value in all events so far counts as fixed, because one long comparison is faster than
    /// several short comparisons. The relevant text is never fixed.
    pub(super) fn of(event: &[u8], places: &VaryingPlaces, before: Option<&Self>) -> Option<Self> {
        let last = event.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'))?;
        let start = last.checked_add(1)?.checked_sub(places.size)?;
        let (front, data) = event.get(..=last)?.split_at_checked(start)?;
        let front = front.strip_suffix(b" ").unwrap_or(front).strip_suffix(b"data:")?;
        if !(front.is_empty() || is_name(front)) || memchr::memchr2(b'\r', b'\n', data).is_some() {
            return None;
        }
        let before = before.filter(|before| before.places.len() == places.places.len());
        let mut shape = Self { event: event.into(), places: Vec::new(), parts: Vec::new(), end: 0 };
        for (number, (at, place)) in places.places.iter().enumerate() {
            let at = start.checked_add(at.start)?..start.checked_add(at.end)?;
            let differed =
                before.is_some_and(|before| before.differs(number, event.get(at.clone())));
            let differs = *place == VaryingPlace::Text || differed;
            if differs {
                shape.parts.push((shape.end..at.start, *place));
                shape.end = at.end;
            }
            shape.places.push((at, *place, differs));
        }
        // A shape that does not match its own event would be useless.
        (shape.read(event)?.length == event.len()).then_some(shape)
    }

    /// Whether earlier events differed in this place, or `value` differs from the value of this event.
    fn differs(&self, place: usize, value: Option<&[u8]>) -> bool {
        let Some((at, _, differs)) = self.places.get(place) else { return false };
        *differs || self.event.get(at.clone()) != value
    }

    /// Reads the event at the beginning of `bytes`; `None` if the event is incomplete or has another shape.
    pub(super) fn read<'a>(&self, bytes: &'a [u8]) -> Option<MatchedEvent<'a>> {
        let (mut at, mut text) = (0_usize, None);
        for (before, place) in &self.parts {
            at = past(bytes, at, self.event.get(before.clone())?)?;
            let rest = bytes.get(at..)?;
            // The compared bytes before a string end with the opening quote.
            let mut string = JsonWalk::new(bytes);
            string.step(at.saturating_sub(1));
            at = match place {
                VaryingPlace::Number => at.checked_add(number(rest)?)?,
                VaryingPlace::Spaces => {
                    at.checked_add(rest.iter().position(|byte| *byte != b' ')?)?
                }
                VaryingPlace::Padding => {
                    string.plain()?;
                    string.place().checked_sub(1)?
                }
                VaryingPlace::Text => {
                    text = Some(string.text()?);
                    string.place().checked_sub(1)?
                }
            };
        }
        at = past(bytes, at, self.event.get(self.end..)?)?;
        Some(MatchedEvent { text: text?, length: at })
    }
}

/// Whether these bytes are exactly one line with the name of an event.
fn is_name(line: &[u8]) -> bool {
    let end = memchr::memchr2(b'\r', b'\n', line).and_then(|at| line.get(at..));
    line.starts_with(b"event:") && matches!(end, Some(b"\r" | b"\n" | b"\r\n"))
}

/// The index after `part`; `None` if `bytes` does not contain `part` at `at`.
fn past(bytes: &[u8], at: usize, part: &[u8]) -> Option<usize> {
    let end = at.checked_add(part.len())?;
    (bytes.get(at..end)? == part).then_some(end)
}

/// The length of the integer at the beginning of `bytes`. `None` for an integer that the parser must read, because it
/// has a sign, a leading zero or more than 19 digits.
fn number(bytes: &[u8]) -> Option<usize> {
    let length = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    let is_number = matches!((bytes.first()?, length), (_, 1) | (b'1'..=b'9', 2..=19));
    is_number.then_some(length)
}
