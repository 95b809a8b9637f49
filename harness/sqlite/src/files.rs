//! The files of an open journal, and checks that the paths still name these files.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rusqlite::Connection;

use super::fault::{self, SqliteFault};

/// The files that are open in this process. All connections of a process to one file share the memory of `-shm`. So if
/// the file was deleted and replaced, a new connection would also use the memory of the deleted file.
static OPEN: Mutex<Vec<Weak<OpenFiles>>> = Mutex::new(Vec::new());

/// The files that a connection has opened. The journal checks these files because SQLite would also write into deleted
/// files. No other process would see such writes, and the writes would be lost at the end of this process.
pub(super) struct OpenFiles {
    /// The path that the program gave, for errors.
    path: PathBuf,
    /// The canonical path, which is the same in all processes.
    file: PathBuf,
    /// The ids of the file, its `-wal` and its `-shm`. SQLite creates the last two when a file is opened for writing,
    /// and keeps them until the last connection is closed.
    ids: [Option<FileId>; 3],
}

/// The device and the inode number of a file. While the file is open, no other file has both numbers.
#[derive(Clone, Copy, PartialEq)]
struct FileId(u64, u64);

impl OpenFiles {
    /// The files of a connection that was opened just now.
    pub(super) fn of(db: &Connection, path: &Path) -> Result<Arc<Self>, SqliteFault> {
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let files = Arc::new(Self { path: path.to_owned(), ids: ids(&file), file });
        if cfg!(unix) && !db.is_readonly("main")? && files.ids.contains(&None) {
            return Err(fault::has_moved(path).into());
        }
        // Another file may have had this path when the connection opened it.
        #[cfg(unix)]
        {
            let mut moved = 0;
            db.file_control(None::<&str>, rusqlite::FileControl::HasMoved(&mut moved))?;
            if moved != 0 {
                return Err(fault::has_moved(path).into());
            }
        }
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&files));
        Ok(files)
    }

    /// Fails if a connection of this process to this file has lost its `-wal` or its `-shm`.
    pub(super) fn ensure_none_lost(path: &Path) -> Result<(), SqliteFault> {
        let Ok(file) = fs::canonicalize(path) else { return Ok(()) };
        let now = ids(&file);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|files| files.strong_count() > 0);
        let is_lost = |files: Arc<Self>| files.ids[0] == now[0] && !files.are(now);
        match open.iter().filter_map(Weak::upgrade).any(is_lost) {
            true => Err(fault::has_moved(path).into()),
            false => Ok(()),
        }
    }

    /// Checks that the paths still lead to the open files.
    pub(super) fn ensure_there(&self) -> Result<(), SqliteFault> {
        match self.are(ids(&self.file)) {
            true => Ok(()),
            false => Err(fault::has_moved(&self.path).into()),
        }
    }

    /// Whether these ids are equal to the ids of the files that the connection has opened. Files that the connection
    /// did not open are not compared.
    fn are(&self, now: [Option<FileId>; 3]) -> bool {
        self.ids.iter().zip(now).all(|(opened, now)| opened.is_none() || *opened == now)
    }

    /// The canonical path, which is the same in all processes.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

fn ids(file: &Path) -> [Option<FileId>; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut path = file.as_os_str().to_owned();
        path.push(OsStr::new(end));
        id(Path::new(&path))
    })
}

#[cfg(unix)]
fn id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;

    let file = fs::metadata(path).ok()?;
    Some(FileId(file.dev(), file.ino()))
}

/// On this system, an open file cannot be deleted, so no check is needed.
#[cfg(not(unix))]
fn id(_: &Path) -> Option<FileId> {
    None
}
