//! Large results are stored whole, in chunks, beside the conversation. The model can then read the parts that it needs.

mod file;
mod folder;
mod read;
mod reader;

use std::{
    fmt,
    hash::{DefaultHasher, Hasher as _},
    pin::Pin,
    sync::Arc,
};

use serde_json::Value;

pub(super) use self::file::read_file;
pub(super) use self::reader::read_result;
#[doc(hidden)]
pub use self::{folder::SpillFolder, reader::READ_RESULT};
use crate::{
    error::Error,
    message::{Messages, ToolCall},
};

/// The future that a method of [`SpillStore`] returns.
#[doc(hidden)]
pub type SpillFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Stores the large results of one conversation.
#[doc(hidden)]
pub trait SpillStore: Send + Sync {
    /// Stores a chunk. The chunks of a name arrive in order, starting at 0.
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()>;

    /// Reads a chunk; `None` after the last chunk and for an unknown name.
    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>>;

    /// Deletes all chunks of a name.
    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()>;
}

/// The size of a chunk, in bytes. Only the last chunk may be shorter.
const CHUNK: usize = 256 * 1024;

/// The store for the large results of a conversation, and the size above which a result is large.
#[derive(Clone)]
#[doc(hidden)]
pub struct LargeResults {
    store: Arc<dyn SpillStore>,
    limit: usize,
}

impl LargeResults {
    /// Stores results of more than `limit` bytes in `store`.
    pub fn new(store: impl SpillStore + 'static, limit: usize) -> Self {
        Self { store: Arc::new(store), limit }
    }

    /// How many bytes of text a model reads of one result.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Stores a whole text.
    pub(super) async fn keep(&self, text: &str) -> SpillNote {
        let mut writer = SpillWriter::new(self);
        writer.push(text.as_bytes()).await;
        writer.finish().await
    }
}

impl fmt::Debug for LargeResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spills").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The beginning of the note for a text that could not be stored. The note continues with the cause and the checksum.
pub(crate) const NOT_KEPT: &str = "; the whole could not be kept: ";

/// The outcome of storing a text.
pub(super) struct SpillNote {
    /// A note for the model: how to read the text, or why it could not be stored.
    pub(super) text: String,
    /// The name of the stored text; `None` if the text is not stored.
    pub(super) name: Option<String>,
}

impl SpillNote {
    /// Creates the note for a text that is not stored. The checksum distinguishes large results with the same beginning
    /// and end.
    pub(super) fn of_lost(text: &[u8]) -> Self {
        let mut checksum = SpillChecksum::default();
        checksum.write(text);
        Self { text: format!("; checksum {checksum}"), name: None }
    }
}

/// The checksum of a whole large result.
#[derive(Default)]
pub(super) struct SpillChecksum(DefaultHasher);

impl SpillChecksum {
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

impl fmt::Display for SpillChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0.finish() >> 32)
    }
}

/// Writes bytes to the store, in chunks. After a failure, nothing more is written, and `finish` reports the failure.
pub(super) struct SpillWriter<'a> {
    store: &'a dyn SpillStore,
    name: String,
    buffer: Vec<u8>,
    chunk: u64,
    failed: Option<Error>,
    /// The checksum of all bytes.
    checksum: SpillChecksum,
}

impl<'a> SpillWriter<'a> {
    pub(super) fn new(spills: &'a LargeResults) -> Self {
        let name = format!("{PREFIX}{:016x}", fastrand::u64(..));
        let (buffer, checksum) = (Vec::new(), SpillChecksum::default());
        Self { store: &*spills.store, name, buffer, chunk: 0, failed: None, checksum }
    }

    pub(super) async fn push(&mut self, mut bytes: &[u8]) {
        self.checksum.write(bytes);
        while self.failed.is_none() && !bytes.is_empty() {
            let room = CHUNK.saturating_sub(self.buffer.len()).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == CHUNK {
                self.write().await;
            }
        }
    }

    async fn write(&mut self) {
        let written = self.store.write(&self.name, self.chunk, &self.buffer).await;
        self.buffer.clear();
        self.chunk = self.chunk.saturating_add(1);
        self.failed = written.err();
    }

    /// Writes the last chunk and returns the note about the text.
    pub(super) async fn finish(mut self) -> SpillNote {
        if self.failed.is_none() && !self.buffer.is_empty() {
            self.write().await;
        }
        match self.failed {
            None => SpillNote {
                text: format!(
                    "; the whole is kept as `{}`, which `{READ_RESULT}` reads (checksum {})",
                    self.name, self.checksum
                ),
                name: Some(self.name),
            },
            Some(error) => {
                // If the deletion fails too, the chunks are deleted together with the conversation.
                let _ = self.store.delete(&self.name).await;
                let checksum = self.checksum;
                let text = format!("{NOT_KEPT}{error}; checksum {checksum}");
                SpillNote { text, name: None }
            }
        }
    }
}

/// The beginning of each name of a stored result.
const PREFIX: &str = "r-";

/// Whether a name has the form of a stored result's name. No other name is looked up.
fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// The beginning of each name for the arguments of a call.
const ARGUMENTS: &str = "a-";

/// The name by which the model reads the arguments of a call. `message` is the index of the message in the transcript.
/// `call` is the index of the call in this message.
pub(crate) fn name_of_arguments(message: usize, call: usize) -> String {
    format!("{ARGUMENTS}{message}-{call}")
}

/// The middle of the line that requests contain in place of a long argument. The line begins with the argument's size,
/// and ends with the name by which the model reads the arguments.
pub(crate) const LEFT_OUT: &str = " bytes stood here, and were left out to save room: `read_result` reads these arguments whole as `";

/// The first words of the result for a call that the library did not start, because its argument was a copy of the line
/// that replaces a left-out argument.
#[doc(hidden)]
pub const COPIED: &str = "This call was not started: its argument ";

/// Whether an argument of the call is a line that replaces a left-out argument. An argument that only quotes this line
/// does not count.
fn is_shortened(call: &ToolCall) -> bool {
    let is_line = |value: &Value| {
        let line = value.as_str().and_then(|text| text.strip_prefix('['));
        let name = line.and_then(|line| line.split_once(LEFT_OUT)).map(|(size, name)| {
            (size.bytes().all(|it| it.is_ascii_digit()), name.strip_suffix("`.]").and_then(call_of))
        });
        matches!(name, Some((true, Some(_))))
    };
    call.decoded().is_ok_and(|arguments| arguments.iter().any(|(_, value)| is_line(value)))
}

/// The index of the message and the index of the call to which a name of arguments refers.
fn call_of(name: &str) -> Option<(usize, usize)> {
    let (message, call) = name.strip_prefix(ARGUMENTS)?.split_once('-')?;
    let (message, call) = (message.parse().ok()?, call.parse().ok()?);
    (name_of_arguments(message, call) == name).then_some((message, call))
}

/// A store that also reads the arguments of calls from the conversation's transcript. Large results come from `store`.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithArguments<S> {
    store: S,
    said: Messages,
    /// The number of messages that the program passed in when the conversation began.
    given: usize,
}

impl<S> WithArguments<S> {
    pub fn new(store: S, said: Messages, given: usize) -> Self {
        Self { store, said, given }
    }

    /// A chunk of the arguments of a call; `None` if the call or the chunk does not exist.
    fn chunk(&self, (message, call): (usize, usize), chunk: u64) -> Option<Vec<u8>> {
        let is_given = message < self.given;
        let call = self.said.get(message)?.calls().nth(call)?;
        // The program may have passed in messages that it took from a request of another conversation. Some arguments
        // in these messages may already be shortened.
        if is_given && call.arguments().contains(LEFT_OUT) && is_shortened(call) {
            return None;
        }
        let number = usize::try_from(chunk).ok()?;
        call.arguments().as_bytes().chunks(CHUNK).nth(number).map(<[u8]>::to_vec)
    }
}

impl<S: SpillStore> SpillStore for WithArguments<S> {
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()> {
        self.store.write(name, chunk, bytes)
    }

    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>> {
        match call_of(name) {
            Some(call) => Box::pin(async move { Ok(self.chunk(call, chunk)) }),
            None => self.store.read(name, chunk),
        }
    }

    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()> {
        self.store.delete(name)
    }
}
