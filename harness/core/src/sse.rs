//! Splits a byte stream into server-sent events. This module depends on no JSON and no vendor: the wires and the MCP
//! client interpret the events.
//!
//! Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html>, section 9.2.6.

use memchr::memchr2;

use crate::error::{Error, ErrorKind};

/// The byte order mark that may precede the first event.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// What a caller does with each record. `SseParser::take_first` is compiled for each caller, and the methods for rare
/// records are compiled once.
type EachRecord<'a> = dyn FnMut(Record<'_>) -> Result<(), Error> + 'a;

/// One event: an optional name, and the data. Several `data` lines are joined by line feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The value of the `event` field; empty if there is none.
    pub event: &'a [u8],
    /// The value of the `data` fields.
    pub data: &'a [u8],
    /// The id of this event. An event without an id has the id of the last earlier event. After a broken stream, a new
    /// request that names this id continues after this event.
    pub id: Option<&'a [u8]>,
}

/// Splits bytes into records. The bytes may arrive in pieces of any size.
///
/// Lines may end in LF, CR or CRLF, a byte order mark may precede the first line, comments are skipped, and the blank
/// line after the last event may be missing. Data that arrives in one piece is not copied.
///
/// Some old servers report a failure on a line `error: ..` instead of a `data` field. Such a line becomes a record
/// named `error`.
///
/// ```
/// use harness::wire::SseParser;
///
/// let mut seen = Vec::new();
/// let mut parser = SseParser::new(1024);
/// for piece in [&b"data: on"[..], b"e\r", b"\n\r\n: a comment\ndata: two\n\n"] {
///     parser.push(piece, |record| {
///         seen.push(record.data.to_vec());
///         Ok(())
///     })?;
/// }
/// assert_eq!(seen, [b"one", b"two"]);
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Debug)]
pub struct SseParser {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The `id` of the event that is being read. This id becomes the last id when the event is complete.
    new_id: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    retry: Option<u64>,
    /// Whether the last byte was a carriage return, so that a following line feed belongs to the same line end.
    after_cr: bool,
    /// Whether no line has been read yet, so that a byte order mark may still come.
    at_start: bool,
    /// The number of complete comments.
    comments: u64,
    limit: usize,
}

impl SseParser {
    /// A parser for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            event: Vec::new(),
            data: Vec::new(),
            has_data: false,
            new_id: None,
            id: None,
            retry: None,
            after_cr: false,
            at_start: true,
            comments: 0,
            limit,
        }
    }

    /// The id of the last complete event with an id, even if that event had no data and therefore produced no record.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// The number of milliseconds that the server asks the client to wait before it reconnects.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// The number of comments so far. Servers send comments to keep the connection alive.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Parses the next bytes and calls `each` for every record that these bytes complete.
    ///
    /// # Errors
    /// The error of `each`, or [`ErrorKind::TooLarge`] if an event exceeds the limit. After an
    /// error, the parser must not be used again.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.take_first(rest, &mut each)?;
        }
        Ok(())
    }

    /// Whether the parser is between two events and holds no part of an event.
    pub fn is_between(&self) -> bool {
        !self.at_start
            && !self.after_cr
            && !self.has_data
            && self.new_id.is_none()
            && self.line.is_empty()
            && self.event.is_empty()
    }

    /// Handles the most common record without a copy: a complete record with one `data` line and at most an `event`
    /// line before it. For other input, takes one or two lines, and passes on a record if the lines complete one.
    /// Returns the remaining bytes.
    ///
    /// # Errors
    /// Fails with the error of `each`, or if a record exceeds the limit.
    pub fn take_first<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<&'a [u8], Error> {
        if !self.is_between() || bytes.first() == Some(&b':') {
            return self.take_next(bytes, each);
        }
        let (event, lines) = match bytes.strip_prefix(b"event:").map(split) {
            None => (&b""[..], bytes),
            Some(Some((name, rest))) => {
                self.check(name.len() + "event:".len())?;
                (name.strip_prefix(b" ").unwrap_or(name), rest)
            }
            Some(None) => return self.take_next(bytes, each),
        };
        if lines.is_empty() || lines.first() == Some(&b':') {
            self.event.extend_from_slice(event);
            return Ok(lines);
        }
        let end = memchr2(b'\r', b'\n', lines);
        let (line, rest) = lines.split_at(end.unwrap_or(lines.len()));
        self.check(line.len())?;
        if let (Some(data), Some(rest)) = (line.strip_prefix(b"data:"), blank(rest)) {
            let data = data.strip_prefix(b" ").unwrap_or(data);
            each(Record { event, data, id: self.id.as_deref() })?;
            return Ok(rest);
        }
        self.event.extend_from_slice(event);
        if end.is_none() {
            self.line.extend_from_slice(line);
            return Ok(rest);
        }
        let rest = self.skip_line_end(rest);
        self.take_line(line, rest, each)
    }

    /// The first byte of the current line. `bytes` continue the part of the line that is already kept.
    fn first(&self, bytes: &[u8]) -> Option<u8> {
        let mut line = self.line.iter().chain(bytes);
        if self.at_start && line.clone().take(MARK.len()).eq(MARK) {
            line.nth(MARK.len() - 1);
        }
        line.next().copied()
    }

    /// Takes the next line and passes on a record if the line completes one. Returns the bytes after the line. An
    /// incomplete line is kept for the next call.
    fn take_next<'a>(
        &mut self,
        bytes: &'a [u8],
        each: &mut EachRecord<'_>,
    ) -> Result<&'a [u8], Error> {
        let mut bytes = bytes;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        let end = match bytes.first() {
            // The line is blank.
            Some(b'\n') => Some(0),
            _ => memchr2(b'\r', b'\n', bytes),
        };
        // The text of a comment is not kept, so that comments of any length are within the limit.
        let is_comment = self.first(bytes) == Some(b':');
        let Some(at) = end else {
            if is_comment {
                self.line = b":".to_vec();
                return Ok(b"");
            }
            self.line.extend_from_slice(bytes);
            self.check(self.line.len())?;
            return Ok(b"");
        };
        let (part, rest) = bytes.split_at(at);
        let rest = self.skip_line_end(rest);
        if is_comment {
            self.line.clear();
            self.at_start = false;
            self.comments = self.comments.saturating_add(1);
            return Ok(rest);
        }
        if self.line.is_empty() {
            self.check(part.len())?;
            return self.take_line(part, rest, each);
        }
        self.line.extend_from_slice(part);
        self.check(self.line.len())?;
        let mut line = std::mem::take(&mut self.line);
        let rest = self.take_line(&line, rest, each)?;
        line.clear();
        self.line = line;
        Ok(rest)
    }

    /// Ends the stream, and passes on a last event that no blank line follows.
    ///
    /// # Errors
    /// The same as [`push`](Self::push).
    pub fn finish(
        &mut self,
        mut each: impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, b"", &mut each)?;
        }
        self.take_line(b"", b"", &mut each)?;
        Ok(())
    }

    /// Takes one complete line and returns the bytes after it. After a single `data` line, a directly following blank
    /// line is taken too, so that the data is passed on without a copy.
    fn take_line<'a>(
        &mut self,
        line: &[u8],
        rest: &'a [u8],
        each: &mut EachRecord<'_>,
    ) -> Result<&'a [u8], Error> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(MARK).unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            self.take_id();
            if self.has_data {
                each(Record { event: &self.event, data: &self.data, id: self.id.as_deref() })?;
            }
            self.data.clear();
            self.has_data = false;
            self.event.clear();
            return Ok(rest);
        }
        // Most lines are `data` lines, so those need no search for the colon.
        let colon = match line.starts_with(b"data:") {
            true => Some(4),
            false => memchr::memchr(b':', line),
        };
        let (name, value) = match colon {
            Some(at) => {
                let (name, value) = line.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data"
                if !self.has_data && rest.first().is_some_and(|b| matches!(b, b'\r' | b'\n')) =>
            {
                self.take_id();
                each(Record { event: &self.event, data: value, id: self.id.as_deref() })?;
                self.event.clear();
                return Ok(self.skip_line_end(rest));
            }
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.check(self.data.len().saturating_add(value.len()))?;
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => self.new_id = Some(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let wait = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.retry = wait.or(self.retry);
            }
            b"error" => each(Record { event: b"error", data: value, id: self.id.as_deref() })?,
            _ => {}
        }
        Ok(rest)
    }

    /// Stores the id of the completed event as the last id, if the event has an id.
    fn take_id(&mut self) {
        if self.new_id.is_some() {
            self.id = self.new_id.take();
        }
    }

    /// Skips one line end. If the bytes end in a carriage return, a line feed at the start of the next bytes is skipped
    /// as well.
    fn skip_line_end<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match bytes {
            [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                b""
            }
            [b'\r', rest @ ..] => rest,
            rest => rest,
        }
    }

    #[inline]
    fn check(&self, size: usize) -> Result<(), Error> {
        match size <= self.limit {
            true => Ok(()),
            false => Err(self.too_large()),
        }
    }

    #[cold]
    fn too_large(&self) -> Error {
        Error::new(
            ErrorKind::TooLarge,
            format!(
                "one event of the answer is larger than {} bytes; raise `ResponseSizeLimits::event` if that \
                 is intended",
                self.limit
            ),
        )
    }
}

/// The first line and the bytes after its line end. `None` if the line is incomplete, or ends in a carriage return
/// without a line feed.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = bytes.split_at(memchr2(b'\r', b'\n', bytes)?);
    let rest = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n"))?;
    Some((line, rest))
}

/// The bytes after a line end and a blank line. `None` if the next line is not blank.
fn blank(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [b'\n', b'\n', rest @ ..] | [b'\r', b'\n', b'\r', b'\n', rest @ ..] => Some(rest),
        _ => None,
    }
}
