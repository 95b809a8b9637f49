//! Server-sent events of one run, with ids from which a client can go on.
//!
//! An id is `RUN/CHUNKS.BYTES`: how many chunks that are not pieces of words, and how many bytes of words, the run has had up to
//! there. Neither changes when neighbouring pieces of words are joined, so a stream that is encoded again, from events that were
//! joined otherwise, continues at the right byte.
//!
//! In a stream that begins with what came before the run, an id there is `RUN/before-CHUNKS.BYTES`. The run itself is counted from
//! its own beginning, so that its ids are the same in streams with and without what came before.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

use harness_agent::Numbered;

/// A place in the stream of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    /// Whether it is in the run itself, and not in what came before.
    in_run: bool,
    chunks: u64,
    bytes: u64,
}

/// What stands in an id before a place in what came before the run.
const BEFORE: &str = "before-";

impl Position {
    const RUN: Self = Self { in_run: true, chunks: 0, bytes: 0 };

    fn read(text: &str) -> Option<Self> {
        let before = text.strip_prefix(BEFORE);
        let (chunks, bytes) = before.unwrap_or(text).split_once('.')?;
        let (chunks, bytes) = (chunks.parse().ok()?, bytes.parse().ok()?);
        Some(Self { in_run: before.is_none(), chunks, bytes })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = if self.in_run { "" } else { BEFORE };
        write!(f, "{before}{}.{}", self.chunks, self.bytes)
    }
}

/// Writes chunks from a place on, and counts all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventStream {
    run: String,
    /// The run, and how much of it the client has.
    seen: Option<(String, Position)>,
    from: Position,
    now: Position,
    /// What was written, and the place behind it. Nothing is the end of the stream.
    out: Vec<(Position, Option<Value>)>,
}

impl EventStream {
    /// Continues after the chunk with this id. An id that cannot be read is that of no run.
    pub(crate) fn after(id: &str) -> Self {
        let seen = id
            .rsplit_once('/')
            .and_then(|(run, position)| Some((run.to_owned(), Position::read(position)?)));
        Self { seen, ..Self::default() }
    }

    /// The event that is encoded next.
    pub(crate) fn begin(&mut self, event: &Numbered) {
        if self.run != *event.run {
            (*event.run).clone_into(&mut self.run);
            let seen = self.seen.take().filter(|(run, _)| *run == self.run);
            self.from = seen.map(|(_, position)| position).unwrap_or_default();
            self.now = Position::RUN;
        }
    }

    /// What is written next came before the run.
    pub(crate) fn begin_before(&mut self) {
        self.now = Position::default();
    }

    /// What is written next is the run itself. Its first chunks, so many, are not written: what came before has them already.
    pub(crate) fn end_before(&mut self, chunks: u64) {
        self.now = Position { chunks, ..Position::RUN };
    }

    /// The name of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Writes a chunk.
    pub(crate) fn chunk(&mut self, json: Value) {
        self.now.chunks += 1;
        let (now, from) = (self.now, self.from);
        if (now.in_run, now.chunks) > (from.in_run, from.chunks) {
            self.write(json);
        }
    }

    /// Writes a piece of words, which may be joined with its neighbours or split elsewhere the next time.
    pub(crate) fn words(&mut self, words: &str, json: impl FnOnce(&str) -> Value) {
        let seen = match self.now.in_run.cmp(&self.from.in_run) {
            Ordering::Less => u64::MAX,
            Ordering::Equal => self.from.bytes.saturating_sub(self.now.bytes),
            Ordering::Greater => 0,
        };
        self.now.bytes += words.len() as u64;
        let seen = usize::try_from(seen).unwrap_or(usize::MAX).min(words.len());
        // No id that was sent is inside of a character.
        let new = words.get(seen..).unwrap_or(words);
        if !new.is_empty() {
            self.write(json(new));
        }
    }

    /// Writes a chunk that is of use only at its time, such as a report of progress. A client that goes on after it may see it
    /// again, and one that comes late does not.
    pub(crate) fn passing(&mut self, json: Value) {
        let (now, from) = (self.now, self.from);
        let is_new = match now.in_run.cmp(&from.in_run) {
            Ordering::Less => false,
            Ordering::Equal => now.chunks >= from.chunks && now.bytes >= from.bytes,
            Ordering::Greater => true,
        };
        if is_new {
            self.write(json);
        }
    }

    fn write(&mut self, json: Value) {
        self.out.push((self.now, Some(json)));
    }

    /// Writes the line after which no chunk follows.
    pub(crate) fn done(&mut self) {
        self.out.push((self.now, None));
    }

    /// Takes what was written, as server-sent events.
    pub(crate) fn take(&mut self) -> String {
        let mut text = String::new();
        for (position, json) in self.out.drain(..) {
            match json {
                // JSON has no line breaks outside of texts, and escapes those in texts.
                Some(json) => {
                    text.push_str(&format!("id: {}/{position}\ndata: {json}\n\n", self.run));
                }
                None => text.push_str("data: [DONE]\n\n"),
            }
        }
        text
    }

    /// Takes what was written, as values.
    pub(crate) fn take_values(&mut self) -> impl Iterator<Item = Value> {
        self.out.drain(..).filter_map(|(_, json)| json)
    }
}
