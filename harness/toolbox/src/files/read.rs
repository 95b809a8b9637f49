//! Reads a window of lines of a text file.

use std::{
    io::{BufRead as _, BufReader},
    ops::RangeInclusive,
};

use super::{
    blocking_work::StopCheck,
    root::{RootFolder, fault},
    tools::MAX_TEXT,
};
use harness_core::tool::ToolError;

/// The number of bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// The maximum number of bytes that are read to count lines.
const MAX_SCAN: u64 = 1024 * 1024 * 1024;

/// Returns lines of the file, from line `first_line` on. If some lines of the file are missing in the result, the
/// result begins with a note: which lines follow, and how many lines the file has.
pub(super) fn read(
    root: &RootFolder,
    given: &str,
    first_line: u64,
    lines: u64,
    stop: &StopCheck,
) -> Result<String, ToolError> {
    if first_line == 0 || lines == 0 {
        let name = if first_line == 0 { "first_line" } else { "lines" };
        return Err(ToolError::BadArguments(vec![format!("`{name}`: is 0; it begins at 1")]));
    }
    let file = root.read(&root.inside(given)?, given)?;
    let mut reader = BufReader::with_capacity(PIECE, file);
    let mut window = LineWindow::new(first_line..=first_line.saturating_add(lines - 1));
    while window.seen < MAX_SCAN {
        stop.check()?;
        let piece = reader.fill_buf().map_err(|err| fault(given, err))?;
        if piece.is_empty() {
            return window.into_text(given, true);
        }
        window.push(piece);
        let length = piece.len();
        reader.consume(length);
    }
    window.into_text(given, false)
}

/// Reads a file chunk by chunk, stores the wanted lines and counts all lines.
struct LineWindow {
    wanted: RangeInclusive<u64>,
    kept: Vec<u8>,
    /// The length of all complete lines in `kept` (`whole`), and the number of the last complete line (`last_whole`).
    whole: usize,
    last_whole: u64,
    /// Whether `kept` is full and takes no more bytes.
    full: bool,
    /// The number of the current line.
    line: u64,
    /// Whether a part of the current line was read.
    begun: bool,
    seen: u64,
}

impl LineWindow {
    fn new(wanted: RangeInclusive<u64>) -> Self {
        let last_whole = wanted.start() - 1;
        Self {
            wanted,
            kept: Vec::new(),
            whole: 0,
            last_whole,
            full: false,
            line: 1,
            begun: false,
            seen: 0,
        }
    }

    fn push(&mut self, mut piece: &[u8]) {
        self.seen += piece.len() as u64;
        while !piece.is_empty() {
            if self.full || self.line > *self.wanted.end() {
                self.line += memchr::memchr_iter(b'\n', piece).count() as u64;
                self.begun = !piece.ends_with(b"\n");
                return;
            }
            let end = memchr::memchr(b'\n', piece);
            let (part, rest) = piece.split_at(end.map_or(piece.len(), |end| end + 1));
            if self.wanted.contains(&self.line) {
                self.keep(part, end.is_some());
            }
            self.begun = end.is_none();
            self.line += u64::from(end.is_some());
            piece = rest;
        }
    }

    fn keep(&mut self, part: &[u8], ends_line: bool) {
        let room = MAX_TEXT - self.kept.len();
        let (fits, rest) = part.split_at(room.min(part.len()));
        self.kept.extend_from_slice(fits);
        self.full = !rest.is_empty();
        if ends_line && !self.full {
            self.whole = self.kept.len();
            self.last_whole = self.line;
        }
    }

    fn into_text(mut self, given: &str, to_the_end: bool) -> Result<String, ToolError> {
        let total = self.line - u64::from(!self.begun);
        let of = if to_the_end { total.to_string() } else { format!("at least {total}") };
        let first = *self.wanted.start();
        if self.seen == 0 {
            return Ok("the file is empty".to_owned());
        }
        if first > total {
            return Err(ToolError::new(format!(
                "`{given}`: has {of} lines, so `first_line` {first} is behind its end; give a \
                 smaller one"
            )));
        }
        let (last, note) = if !self.full && self.kept.len() > self.whole {
            (total, ", without a line break at the end".to_owned())
        } else if !self.full {
            (self.last_whole, String::new())
        } else if self.whole == 0 {
            (first, format!(", cut after {MAX_TEXT} bytes, since line {first} is longer"))
        } else {
            self.kept.truncate(self.whole);
            let next = self.last_whole + 1;
            (self.last_whole, format!(", cut at {MAX_TEXT} bytes: go on with `first_line` {next}"))
        };
        let all = to_the_end && !self.full && first == 1 && last == total;
        let text = match String::from_utf8(self.kept) {
            Ok(text) => text,
            Err(err) => {
                let good = err.utf8_error().valid_up_to();
                let torn = self.full && self.whole == 0 && err.utf8_error().error_len().is_none();
                let mut bytes = err.into_bytes();
                bytes.truncate(good);
                if !torn {
                    let line = first + memchr::memchr_iter(b'\n', &bytes).count() as u64;
                    return Err(ToolError::new(format!(
                        "`{given}`: line {line} is not UTF-8 text, so the file is not text or has \
                         another encoding; this tool reads only UTF-8"
                    )));
                }
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        Ok(if all { text } else { format!("[lines {first}-{last} of {of}{note}]\n{text}") })
    }
}
