//! Keeps large results in a folder that the program names: one file per result, which only the user of the process may
//! read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind as Io, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use hmac_sha256::Hash as Sha256;
use tokio::runtime::Handle;

use super::{CHUNK, SpillFuture, SpillStore, is_name};
use crate::{
    error::{Error, ErrorKind},
    tool::off_loop::off_loop,
};

/// The folder of one conversation. The folder is created when the first result is kept.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpillFolder(PathBuf);

impl SpillFolder {
    /// The folder of one conversation, inside of the folder that the program names. `first_message` is the id of the
    /// conversation's first message.
    pub fn of(folder: &Path, first_message: &str) -> Self {
        let hash = Sha256::hash(first_message.as_bytes());
        let name = hash.iter().take(16).map(|byte| format!("{byte:02x}"));
        Self(folder.join(name.collect::<String>()))
    }

    /// Creates the folder that the program names, and checks that files can be written in it.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or if no file can be written in it.
    pub fn prepare(folder: &Path) -> Result<(), Error> {
        if folder.to_string_lossy().trim().is_empty() {
            let text = "`AgentBuilder::spill_folder` was given an empty path: name a folder";
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        let tried = make(folder).and_then(|()| {
            let file = folder.join(format!("tried-{:016x}", fastrand::u64(..)));
            let written = private(&file).and_then(|mut file| file.write_all(b"tried"));
            written.and(fs::remove_file(&file))
        });
        tried.map_err(|err| {
            let text = format!(
                "the folder `{}`, which was given to `AgentBuilder::spill_folder`, cannot be written: \
                 {err}. Name one that this program may make and write",
                folder.display()
            );
            Error::new(ErrorKind::Configuration, text).with_source(err)
        })
    }

    /// Runs `work` on the file of a result, on a thread where it may block.
    async fn with<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (folder, file) = (self.0.clone(), self.0.join(name).with_extension("txt"));
        let done = off_loop(&Handle::current(), move || work(&folder, &file)).await;
        done.flatten().map_err(|err| {
            // The text does not contain the name of the file, because the name is different for each result.
            Error::new(ErrorKind::Journal, format!("the file for it: {err}")).with_source(err)
        })
    }
}

impl SpillStore for SpillFolder {
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()> {
        let bytes = bytes.to_vec();
        Box::pin(self.with(name, move |folder, file| {
            let mut file = match chunk {
                0 => {
                    make(folder)?;
                    private(file)?
                }
                _ => OpenOptions::new().write(true).open(file)?,
            };
            file.seek(SeekFrom::Start(chunk.saturating_mul(CHUNK as u64)))?;
            file.write_all(&bytes)
        }))
    }

    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            if !is_name(name) {
                return Ok(None);
            }
            self.with(name, move |_, file| {
                let mut file = match File::open(file) {
                    Err(err) if err.kind() == Io::NotFound => return Ok(None),
                    file => file?,
                };
                // Some systems refuse to seek to an offset that no file can have.
                let offset = chunk.saturating_mul(CHUNK as u64);
                if offset >= file.metadata()?.len() {
                    return Ok(None);
                }
                file.seek(SeekFrom::Start(offset))?;
                let mut bytes = Vec::new();
                file.take(CHUNK as u64).read_to_end(&mut bytes)?;
                Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
            })
            .await
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()> {
        Box::pin(self.with(name, |_, file| fs::remove_file(file)))
    }
}

/// Creates a folder that only the user of the process may open. An existing folder is not changed.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates a new file that only the user of the process may read.
fn private(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}
