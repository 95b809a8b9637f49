//! Server-sent events of one run, with ids from which a client can go on.
//!
//! An id is `RUN/CHUNKS.BYTES`: how many chunks that are not pieces of words, and how many bytes of words, the run has had up to
//! there. Neither changes when neighbouring pieces of words are joined, so a stream that is encoded again, from events that were
//! joined otherwise, continues at the right byte.

use serde_json::Value;

use harness_agent::Numbered;

/// A place in the stream of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    chunks: u64,
    bytes: u64,
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
        let seen = id.rsplit_once('/').and_then(|(run, position)| {
            let (chunks, bytes) = position.split_once('.')?;
            let position = Position { chunks: chunks.parse().ok()?, bytes: bytes.parse().ok()? };
            Some((run.to_owned(), position))
        });
        Self { seen, ..Self::default() }
    }

    /// The event that is encoded next.
    pub(crate) fn begin(&mut self, event: &Numbered) {
        if self.run != *event.run {
            (*event.run).clone_into(&mut self.run);
            let seen = self.seen.take().filter(|(run, _)| *run == self.run);
            self.from = seen.map(|(_, position)| position).unwrap_or_default();
            self.now = Position::default();
        }
    }

    /// The name of the run.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Writes a chunk.
    pub(crate) fn chunk(&mut self, json: Value) {
        self.now.chunks += 1;
        if self.now.chunks > self.from.chunks {
            self.write(json);
        }
    }

    /// Writes a piece of words, which may be joined with its neighbours or split elsewhere the next time.
    pub(crate) fn words(&mut self, words: &str, json: impl FnOnce(&str) -> Value) {
        let seen = self.from.bytes.saturating_sub(self.now.bytes);
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
        if self.now.chunks >= self.from.chunks && self.now.bytes >= self.from.bytes {
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
        for (Position { chunks, bytes }, json) in self.out.drain(..) {
            match json {
                // JSON has no line breaks outside of texts, and escapes those in texts.
                Some(json) => {
                    text.push_str(&format!("id: {}/{chunks}.{bytes}\ndata: {json}\n\n", self.run));
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
