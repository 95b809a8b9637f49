//! Reads a file as a tool's output, in pieces, so that a large file is never wholly in memory.

use std::{
    fs::File,
    io::{self, Read as _, Take},
    path::{Path, PathBuf},
};

use tokio::runtime::Handle;

use super::{CHUNK, LargeResults, SpillChecksum, SpillWriter};
use crate::{
    secret::{SecretFilter, Secrets},
    tool::{off_loop::off_loop, truncate::gap},
};

/// The number of bytes of a file in which secrets are searched for at a time.
const SEARCHED: usize = 256 * 1024;

/// Returns the text of a file for a model, without known secrets. If the file has more than `limit` bytes, the text has
/// only the beginning and the end of the file. If `spills` is also set, the whole text is stored in `spills`, and the
/// name of the stored text is returned. If the file cannot be read, the error contains the reason.
pub(in crate::tool) async fn read_file(
    path: &Path,
    limit: usize,
    secrets: &Secrets,
    spills: Option<&LargeResults>,
) -> Result<(String, Option<String>), String> {
    let failed = |err: io::Error| format!("the file `{}` cannot be read: {err}", path.display());
    let (opened, runtime) = (path.to_owned(), Handle::current());
    let (mut file, has_size) =
        off_loop(&runtime, move || open(opened)).await.flatten().map_err(failed)?;
    let mut cleaner = SecretFilter::new(secrets.clone(), SEARCHED);
    let mut taken = HeadAndTail::new(limit, spills);
    loop {
        let (left, piece) =
            off_loop(&runtime, move || piece(file)).await.flatten().map_err(failed)?;
        file = left;
        if piece.is_empty() {
            break;
        }
        if !has_size && file.limit() == 0 {
            return Err(failed(io::Error::other(format!(
                "the system does not tell its size, and it has {UNSIZED} bytes or more"
            ))));
        }
        taken.push(&cleaner.push(&piece)).await;
    }
    // The end may be the beginning of a secret, because the writer of the file may have been stopped or may still be
    // writing.
    taken.push(&cleaner.finish_cut()).await;
    Ok(taken.finish().await)
}

/// The maximum size, in bytes, of a file for which the system reports no size.
const UNSIZED: u64 = 64 * 1024 * 1024;

/// Opens a regular file. Only the bytes that the file has now are read, because a log may grow as fast as it is read.
/// Also returns whether the size is known: some file systems, such as `/proc`, report no size.
fn open(path: PathBuf) -> io::Result<(Take<File>, bool)> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let file = File::open(path)?;
    Ok(match file.metadata()?.len() {
        0 => (file.take(UNSIZED), false),
        size => (file.take(size), true),
    })
}

fn piece(mut file: Take<File>) -> io::Result<(Take<File>, Vec<u8>)> {
    let mut piece = Vec::with_capacity(CHUNK.min(usize::try_from(file.limit()).unwrap_or(CHUNK)));
    (&mut file).take(CHUNK as u64).read_to_end(&mut piece)?;
    Ok((file, piece))
}

/// Collects the beginning and the end of a text that arrives in pieces. Once the text is over the limit, the whole text
/// is written to the store.
struct HeadAndTail<'a> {
    limit: usize,
    spills: Option<&'a LargeResults>,
    writer: Option<SpillWriter<'a>>,
    /// The whole text, as long as it is within the limit. After that, only the beginning of the text.
    head: String,
    tail: String,
    size: usize,
    /// The checksum of the whole text.
    checksum: SpillChecksum,
}

impl<'a> HeadAndTail<'a> {
    fn new(limit: usize, spills: Option<&'a LargeResults>) -> Self {
        let (head, tail, checksum) = (String::new(), String::new(), SpillChecksum::default());
        Self { limit, spills, writer: None, head, tail, size: 0, checksum }
    }

    async fn push(&mut self, text: &str) {
        let was_large = self.size > self.limit;
        self.size = self.size.saturating_add(text.len());
        self.checksum.write(text.as_bytes());
        if was_large {
            if let Some(writer) = &mut self.writer {
                writer.push(text.as_bytes()).await;
            }
            self.tail.push_str(text);
            if self.tail.len() > self.limit.saturating_add(CHUNK) {
                self.shorten_tail();
            }
            return;
        }
        self.head.push_str(text);
        if self.size <= self.limit {
            return;
        }
        self.writer = self.spills.map(SpillWriter::new);
        if let Some(writer) = &mut self.writer {
            writer.push(self.head.as_bytes()).await;
        }
        let half = self.limit / 2;
        let end = (0..=half).rev().find(|at| self.head.is_char_boundary(*at)).unwrap_or(0);
        self.tail = self.head.split_off(end);
        self.shorten_tail();
    }

    fn shorten_tail(&mut self) {
        let from = self.tail.len().saturating_sub(self.limit / 2);
        let from = (from..self.tail.len()).find(|at| self.tail.is_char_boundary(*at));
        self.tail.drain(..from.unwrap_or(self.tail.len()));
    }

    async fn finish(mut self) -> (String, Option<String>) {
        if self.size <= self.limit {
            return (self.head, None);
        }
        self.shorten_tail();
        let (whole, name) = match self.writer {
            Some(writer) => {
                let note = writer.finish().await;
                (note.text, note.name)
            }
            None => (format!("; checksum {}", self.checksum), None),
        };
        (gap(&self.head, &self.tail, self.size, &whole), name)
    }
}
