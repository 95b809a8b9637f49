//! Large results: kept whole, in chunks, beside the conversation, so that the model reads the parts that it needs.

mod file;
mod folder;
mod read;
mod reader;

use std::{fmt, pin::Pin, sync::Arc};

pub(super) use self::file::read_file;
pub(super) use self::reader::read_result;
pub(crate) use self::{folder::Folder, reader::READ_RESULT};
use crate::{error::Error, message::Messages};

/// What a call of a [`SpillStore`] comes to.
pub(crate) type SpillFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Where the large results of one conversation are.
pub(crate) trait SpillStore: Send + Sync {
    /// Keeps a chunk. They come in order, from 0 on.
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()>;

    /// Reads a chunk; there is none behind the last, and none of a name that is not known.
    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>>;

    /// Deletes what was kept by a name.
    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()>;
}

/// So many bytes are kept at a time, and each chunk but the last has as many.
const CHUNK: usize = 256 * 1024;

/// Where the large results of a conversation go, and what is large.
#[derive(Clone)]
pub(crate) struct Spills {
    store: Arc<dyn SpillStore>,
    limit: usize,
}

impl Spills {
    /// Results of more than `limit` bytes go into `store`.
    pub(crate) fn new(store: impl SpillStore + 'static, limit: usize) -> Self {
        Self { store: Arc::new(store), limit }
    }

    /// The bytes of text that a model reads of one result.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Keeps a text whole. Says in words how it is read, or why it could not be kept.
    pub(super) async fn keep(&self, text: &str) -> String {
        let mut writer = Writer::new(self);
        writer.push(text.as_bytes()).await;
        writer.finish().await
    }
}

impl fmt::Debug for Spills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spills").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Keeps what is pushed. After a failure it keeps nothing, and says so in the end.
pub(super) struct Writer<'a> {
    store: &'a dyn SpillStore,
    name: String,
    buffer: Vec<u8>,
    chunk: u64,
    failed: Option<Error>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(spills: &'a Spills) -> Self {
        let name = format!("{PREFIX}{:016x}", fastrand::u64(..));
        Self { store: &*spills.store, name, buffer: Vec::new(), chunk: 0, failed: None }
    }

    pub(super) async fn push(&mut self, mut bytes: &[u8]) {
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

    /// Says in words how it is read, or why it could not be kept.
    pub(super) async fn finish(mut self) -> String {
        if self.failed.is_none() && !self.buffer.is_empty() {
            self.write().await;
        }
        match self.failed {
            None => format!("; {KEPT_AS}{}`, which `{READ_RESULT}` reads", self.name),
            Some(error) => {
                // What is left of it is deleted with the conversation.
                let _ = self.store.delete(&self.name).await;
                format!("; the whole could not be kept: {error}")
            }
        }
    }
}

/// What the name of a result begins with.
const PREFIX: &str = "r-";

/// The name by which the whole of a result is kept, told from what the model reads of it.
pub(crate) fn name_in(text: &str) -> Option<&str> {
    let starts = text.rmatch_indices(KEPT_AS).map(|(at, _)| at.saturating_add(KEPT_AS.len()));
    let names = starts.filter_map(|at| text.get(at..)?.split('`').next());
    names.into_iter().find(|name| is_name(name))
}

/// What stands before the name.
const KEPT_AS: &str = "the whole is kept as `";

/// Whether a name is one that is given to results, so that it leads to nothing else.
fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// What the name of the arguments of a call begins with.
const ARGUMENTS: &str = "a-";

/// The name by which the arguments of a call are read: of this message of the transcript, the call of this number.
pub(crate) fn name_of_arguments(message: usize, call: usize) -> String {
    format!("{ARGUMENTS}{message}-{call}")
}

/// Whose arguments are read by a name: the message and the number of the call in it.
fn call_of(name: &str) -> Option<(usize, usize)> {
    let (message, call) = name.strip_prefix(ARGUMENTS)?.split_once('-')?;
    let (message, call) = (message.parse().ok()?, call.parse().ok()?);
    (name_of_arguments(message, call) == name).then_some((message, call))
}

/// The large results of a conversation and the arguments of its calls, which stand in what was said.
pub(crate) struct WithArguments<S> {
    store: S,
    said: Messages,
}

impl<S> WithArguments<S> {
    pub(crate) fn new(store: S, said: Messages) -> Self {
        Self { store, said }
    }

    /// A chunk of the arguments of a call, if there is such a call.
    fn chunk(&self, (message, call): (usize, usize), chunk: u64) -> Option<Vec<u8>> {
        let call = self.said.get(message)?.calls().nth(call)?;
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
