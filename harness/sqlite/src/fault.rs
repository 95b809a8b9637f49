//! The errors about a file. Each error names the file, the fault and the remedy.

use std::{io, path::Path, time::Duration};

use rusqlite::{ErrorCode, ffi};

use harness_core::error::{Error, ErrorKind};

/// SQLite's error codes for a readable file beside which SQLite cannot create, lock or repair its `-wal` or `-shm`.
const NEEDS_FOLDER: [Option<i32>; 4] = [
    Some(ffi::SQLITE_READONLY_RECOVERY),
    Some(ffi::SQLITE_READONLY_CANTLOCK),
    Some(ffi::SQLITE_READONLY_CANTINIT),
    Some(ffi::SQLITE_READONLY_DIRECTORY),
];

const FULL: &str = "cannot grow: the disk is full, or the limit `max_size` is reached. Nothing of this \
                    call was written. Make room or raise the limit";

/// An error of SQLite or of this library.
pub(super) enum SqliteFault {
    Sqlite(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for SqliteFault {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// The error with this text about this file.
pub(super) fn of(path: &Path, words: &str) -> Error {
    Error::new(ErrorKind::Journal, format!("the journal `{}` {words}", path.display()))
}

impl SqliteFault {
    /// The error for the program, with the file and the remedy.
    pub(super) fn into_error(self, path: &Path, busy_timeout: Duration) -> Error {
        let error = match self {
            Self::Ours(error) => return error,
            Self::Sqlite(error) => error,
        };
        let words = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                return of(
                    path,
                    &format!(
                        "is being written by another connection for longer than {busy_timeout:?}. \
                         Try again, or set a longer `busy_timeout`"
                    ),
                )
                .with_source(error);
            }
            Some(_) if error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
                FULL
            }
            Some(ErrorCode::DiskFull) => FULL,
            Some(ErrorCode::ReadOnly)
                if NEEDS_FOLDER.contains(&error.sqlite_extended_error_code()) =>
            {
                "cannot be opened: even a program that only reads needs the right to write its folder, \
                 because SQLite keeps the files `-wal` and `-shm` there. Give the program that right, \
                 or open a copy of the file"
            }
            Some(ErrorCode::ReadOnly) => {
                "can only be read. Give the program the right to write the file and its folder, and \
                 open it without `read_only`"
            }
            Some(ErrorCode::DatabaseCorrupt) => {
                "is damaged. Restore a copy of it, or save what can be read with the command \
                 `.recover` of the program `sqlite3`"
            }
            Some(ErrorCode::NotADatabase) => {
                "is no database of SQLite. It was not changed; give the path of another file"
            }
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                "cannot be opened. Its folder must exist and the program must have the right to \
                 read and write the file, those beside it (`-wal`, `-shm`), and the folder; and the disk must \
                 have room for them"
            }
            Some(ErrorCode::SystemIoFailure) => {
                "could not be read or written by the operating system. Check the disk in its log"
            }
            Some(ErrorCode::TooBig) => {
                "cannot take a fact of this size: SQLite takes up to 1,000,000,000 bytes"
            }
            _ => "failed",
        };
        of(path, words).with_source(error)
    }
}

pub(super) fn no_path(path: &Path, error: io::Error) -> Error {
    let words = format!("`{}` is not a valid path for the file of a journal", path.display());
    Error::new(ErrorKind::Configuration, words).with_source(error)
}

pub(super) fn is_folder(path: &Path) -> Error {
    of(path, "cannot be opened: it is a folder. Give the path of a file in it")
}

pub(super) fn is_of_others(path: &Path) -> Error {
    of(
        path,
        "cannot be opened: it is a database of another application. It was not changed; give the \
         path of another file",
    )
}

pub(super) fn has_other_schema(path: &Path, version: i64, ours: i64) -> Error {
    let which = match version > ours {
        true => "a later version of the library, which it needs",
        false => "a version of the library before its first release. Give the path of another file",
    };
    of(
        path,
        &format!(
            "cannot be opened: it has schema {version}, and this version of the library knows only \
             schema {ours}. It was not changed; it was made by {which}"
        ),
    )
}

pub(super) fn is_empty(path: &Path) -> Error {
    of(path, "cannot be read: nothing was ever written into it. Open it without `read_only` first")
}

pub(super) fn has_moved(path: &Path) -> Error {
    of(
        path,
        "was deleted or moved while it was open, or its file `-wal` or `-shm` was. What would be \
         written now would be lost. Drop all journals that this process has opened on it, and open \
         it again",
    )
}

pub(super) fn ended(path: &Path) -> Error {
    of(path, "cannot be used any more: its thread has panicked. Open it again")
}

pub(super) fn no_thread(path: &Path, error: io::Error) -> Error {
    of(path, "cannot be opened: the operating system cannot start a thread").with_source(error)
}

/// The error for a row that this library has not written.
pub(super) fn is_strange(path: &Path, conversation: &str, what: &str) -> Error {
    of(path, &format!("has a row that cannot be read: {what} of the conversation `{conversation}`"))
}

pub(super) fn lives(path: &Path, error: io::Error) -> Error {
    let way_out = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full. Make room",
        _ => "give the program the right to read and write it",
    };
    let words = format!(
        "the folder `{}`, which shows who holds a conversation, cannot be used: {way_out}",
        path.display()
    );
    Error::new(ErrorKind::Journal, words).with_source(error)
}
