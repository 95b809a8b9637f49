//! Opens a file: checks the file before changing anything, and creates the schema on first use.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{
    SqliteBuilder,
    fault::{self, SqliteFault},
    files::OpenFiles,
    spills,
    store::SqliteStore,
};
use harness_core::error::Error;

/// The application id in the header of this library's files: `hrns`.
const APPLICATION: i64 = 0x6872_6e73;

/// The version of the schema. Versions 1 and 2 existed only during the development of the library.
const VERSION: i64 = 3;

/// Other tables identify a conversation by its `key`, which is shorter than its id. The first `base_facts` facts of a
/// fork are stored in `base`. `incarnation`, `facts` and `writer` are the head.
const SCHEMA: &str = "
    CREATE TABLE conversations (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        metadata TEXT NOT NULL,
        owner TEXT,
        parent TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        changed INTEGER NOT NULL UNIQUE,
        incarnation INTEGER NOT NULL,
        facts INTEGER NOT NULL,
        writer TEXT,
        base INTEGER,
        base_facts INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX conversations_owner ON conversations (owner, changed) WHERE owner IS NOT NULL;
    CREATE INDEX conversations_parent ON conversations (parent, changed) WHERE parent IS NOT NULL;
    CREATE INDEX conversations_base ON conversations (base) WHERE base IS NOT NULL;
    CREATE TABLE facts (
        conversation INTEGER NOT NULL,
        number INTEGER NOT NULL,
        format INTEGER NOT NULL,
        version TEXT NOT NULL,
        life TEXT NOT NULL,
        at INTEGER NOT NULL,
        elapsed INTEGER NOT NULL,
        fact TEXT NOT NULL,
        PRIMARY KEY (conversation, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE holds (
        conversation TEXT PRIMARY KEY,
        life TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Whether a file is new or was made by this library.
enum FileState {
    New,
    Ours,
}

pub(super) fn open_store(settings: &SqliteBuilder, path: PathBuf) -> Result<SqliteStore, Error> {
    if path.is_dir() {
        return Err(fault::is_folder(&path));
    }
    // SQLite stores the time as milliseconds in 31 bits.
    let longest = Duration::from_millis(i32::MAX.unsigned_abs().into());
    let busy_timeout = settings.busy_timeout.min(longest);
    let opened = OpenFiles::ensure_none_lost(&path)
        .and_then(|()| connect(settings, &path, busy_timeout))
        .and_then(|db| Ok((OpenFiles::of(&db, &path)?, db)));
    match opened {
        Ok((files, db)) => {
            Ok(SqliteStore::new(db, path, files, busy_timeout, settings.synchronous))
        }
        Err(fault) => Err(fault.into_error(&path, busy_timeout)),
    }
}

fn connect(
    settings: &SqliteBuilder,
    path: &Path,
    busy_timeout: Duration,
) -> Result<Connection, SqliteFault> {
    let access = match settings.read_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    #[cfg(unix)]
    if !settings.read_only {
        make_private(path);
    }
    let mut db = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(busy_timeout)?;
    db.set_prepared_statement_cache_capacity(64);
    // With these settings, SQLite detects damage during reads, and runs no functions that a damaged schema names.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    let is = look(&db, path)?;
    if !db.is_readonly("main")? {
        keep_a_log(&db, busy_timeout)?;
        make(&mut db, path)?;
    } else if let FileState::New = is {
        return Err(fault::is_empty(path).into());
    }
    if let Some(bytes) = settings.max_size {
        let page: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = bytes / page.max(1).unsigned_abs();
        // SQLite accepts this range. SQLite would treat 0 as a query for the current value.
        let pages = pages.clamp(1, 4_294_967_294);
        db.pragma_update_and_check(None, "max_page_count", pages.cast_signed(), |_| Ok(()))?;
    }
    Ok(db)
}

/// Creates the file if it does not exist, so that only its owner can read it. SQLite gives its other files the same
/// mode. Errors are ignored, because SQLite reports them when it opens the file.
#[cfg(unix)]
fn make_private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;

    let mut options = fs::OpenOptions::new();
    drop(options.write(true).create_new(true).mode(0o600).open(path));
}

/// Reads the state of the file, without changing the file.
fn look(db: &Connection, path: &Path) -> Result<FileState, SqliteFault> {
    // All values are read in one statement, because another process may be creating the tables.
    let what = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) \
                FROM pragma_application_id, pragma_user_version";
    let (application, version, tables): (i64, i64, i64) =
        db.query_row(what, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if application == APPLICATION {
        return match version {
            VERSION => Ok(FileState::Ours),
            other if other > 0 => Err(fault::has_other_schema(path, other, VERSION).into()),
            _ => Err(fault::is_of_others(path).into()),
        };
    }
    match (application, version, tables) {
        (0, 0, 0) => Ok(FileState::New),
        _ => Err(fault::is_of_others(path).into()),
    }
}

/// Turns on the write-ahead log, so that other connections can read during a write. The setting is stored in the file.
fn keep_a_log(db: &Connection, busy_timeout: Duration) -> Result<(), SqliteFault> {
    let begun = Instant::now();
    loop {
        match db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            // If another process turns on the log at the same time, SQLite fails at once instead of waiting.
            Err(err)
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begun.elapsed() < busy_timeout =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            result => return Ok(result?),
        }
    }
}

/// Creates the schema if it does not exist.
fn make(db: &mut Connection, path: &Path) -> Result<(), SqliteFault> {
    if let FileState::Ours = look(db, path)? {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the schema meanwhile.
    if let FileState::New = look(&transaction, path)? {
        transaction.execute_batch(SCHEMA)?;
        transaction.execute_batch(spills::TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}
