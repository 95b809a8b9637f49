//! The connection on its thread: transactions, and leases.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{
    Connection, OptionalExtension as _, Transaction, TransactionBehavior, config::DbConfig,
};

use super::{
    SqliteSynchronous,
    fault::{self, SqliteFault},
    files::OpenFiles,
    open_journals::OpenJournals,
};
use harness_core::{error::Error, journal::busy};

/// One connection to a file.
pub(super) struct SqliteStore {
    db: Connection,
    /// The path that the program gave, for errors.
    path: PathBuf,
    /// Dropped after the connection was closed.
    files: Arc<OpenFiles>,
    busy_timeout: Duration,
    /// What an append waits for.
    synchronous: SqliteSynchronous,
    /// The current value of `synchronous` in SQLite, if it is known.
    waits_for: Option<SqliteSynchronous>,
    holds: LeaseTable,
}

/// The conversations that this connection holds, and the files that show which other journals are open.
pub(super) struct LeaseTable {
    lives: OpenJournals,
    here: HashSet<String>,
    /// Released conversations that still have a row, because the file could not be written.
    left: HashSet<String>,
}

impl SqliteStore {
    pub(super) fn new(
        db: Connection,
        path: PathBuf,
        files: Arc<OpenFiles>,
        busy_timeout: Duration,
        synchronous: SqliteSynchronous,
    ) -> Self {
        let lives = OpenJournals::beside(files.file());
        let holds = LeaseTable { lives, here: HashSet::new(), left: HashSet::new() };
        Self { db, path, files, busy_timeout, synchronous, waits_for: None, holds }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads from a consistent snapshot.
    pub(super) fn reading<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Path) -> Result<T, SqliteFault>,
    ) -> Result<T, Error> {
        self.transaction(TransactionBehavior::Deferred, |transaction, path, _| {
            work(transaction, path)
        })
    }

    /// Writes without waiting for the disk. Use it for leases, because a crash of the system ends all leases, and for
    /// data that a later write makes durable.
    pub(super) fn noting<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Path, &mut LeaseTable) -> Result<T, SqliteFault>,
    ) -> Result<T, Error> {
        self.wait_for(SqliteSynchronous::Normal)?;
        self.transaction(TransactionBehavior::Immediate, work)
    }

    /// Writes everything or nothing. Other connections cannot write at the same time.
    pub(super) fn writing<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Path, &mut LeaseTable) -> Result<T, SqliteFault>,
    ) -> Result<T, Error> {
        self.wait_for(self.synchronous)?;
        self.transaction(TransactionBehavior::Immediate, work)
    }

    /// Sets `synchronous` for the next transactions. If this fails, the transaction must not start.
    fn wait_for(&mut self, wanted: SqliteSynchronous) -> Result<(), Error> {
        if self.waits_for == Some(wanted) {
            return Ok(());
        }
        self.waits_for = None;
        let name = match wanted {
            SqliteSynchronous::Full => "FULL",
            SqliteSynchronous::Normal => "NORMAL",
        };
        let set = self.db.pragma_update(None, "synchronous", name);
        set.map_err(|err| SqliteFault::from(err).into_error(&self.path, self.busy_timeout))?;
        self.waits_for = Some(wanted);
        Ok(())
    }

    fn transaction<T>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>, &Path, &mut LeaseTable) -> Result<T, SqliteFault>,
    ) -> Result<T, Error> {
        let Self { db, path, files, busy_timeout, holds, synchronous: _, waits_for: _ } = self;
        let done = (|| {
            files.ensure_there()?;
            let transaction = db.transaction_with_behavior(behavior)?;
            // A transaction that is dropped without a commit is rolled back.
            let done = work(&transaction, path, holds)?;
            // The check comes before the commit, because a commit may also copy the log into the file. A replaced log
            // does not belong to this file.
            files.ensure_there()?;
            transaction.commit()?;
            // This second check ensures that the committed data is in the files that other connections read.
            files.ensure_there()?;
            Ok(done)
        })();
        done.map_err(|fault: SqliteFault| fault.into_error(path, *busy_timeout))
    }

    /// Takes the lease of a conversation for this connection.
    pub(super) fn hold(&mut self, conversation: &str) -> Result<(), Error> {
        let dead = self.noting(|transaction, _, holds| {
            holds.settle(transaction)?;
            let dead = holds.check_free(transaction, conversation)?;
            let own = holds.own()?;
            transaction
                .prepare_cached("INSERT OR REPLACE INTO holds (conversation, life) VALUES (?, ?)")?
                .execute((conversation, own))?;
            Ok(dead)
        })?;
        self.holds.settled(dead);
        self.holds.here.insert(conversation.to_owned());
        Ok(())
    }

    /// Releases a conversation. If the file cannot be written now, the next `hold` deletes the row. Until then, other
    /// connections see the conversation as held.
    pub(super) fn release(&mut self, conversation: String) {
        self.holds.here.remove(&conversation);
        self.holds.left.insert(conversation);
        let settled = self.noting(|transaction, _, holds| holds.settle(transaction));
        if settled.is_ok() {
            self.holds.settled(None);
        }
    }

    /// Updates the leases after a commit that has deleted the rows of released conversations and of the journals
    /// `dead`.
    pub(super) fn settled(&mut self, dead: impl IntoIterator<Item = String>) {
        self.holds.settled(dead);
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection copies the log into the file and deletes the log. A replaced log does not belong to the
        // file, so the copy is turned off here.
        if self.files.ensure_there().is_err() {
            let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            drop(self.db.set_db_config(keep, true));
        }
    }
}

impl LeaseTable {
    /// Deletes the rows of released conversations. After the commit, `settled` clears the list.
    pub(super) fn settle(&self, transaction: &Transaction<'_>) -> Result<(), SqliteFault> {
        for conversation in &self.left {
            transaction
                .prepare_cached("DELETE FROM holds WHERE conversation = ?")?
                .execute([conversation])?;
        }
        Ok(())
    }

    /// Clears the list of released conversations after the commit, and removes the files of the closed journals `dead`.
    fn settled(&mut self, dead: impl IntoIterator<Item = String>) {
        self.left.clear();
        dead.into_iter().for_each(|life| self.lives.remove(&life));
    }

    /// Checks that no open journal holds a conversation. Deletes the rows of a closed journal, and returns the name of
    /// its file.
    pub(super) fn check_free(
        &self,
        transaction: &Transaction<'_>,
        conversation: &str,
    ) -> Result<Option<String>, SqliteFault> {
        if self.here.contains(conversation) {
            return Err(busy(conversation).into());
        }
        let holder: Option<String> = transaction
            .prepare_cached("SELECT life FROM holds WHERE conversation = ?")?
            .query_row([conversation], |row| row.get(0))
            .optional()?;
        let Some(holder) = holder else { return Ok(None) };
        if self.lives.is_dead(&holder).map_err(|err| fault::lives(self.lives.folder(), err))? {
            transaction.prepare_cached("DELETE FROM holds WHERE life = ?")?.execute([&holder])?;
            return Ok(Some(holder));
        }
        Err(busy(conversation).into())
    }

    fn own(&mut self) -> Result<String, SqliteFault> {
        match self.lives.own() {
            Ok(own) => Ok(own.to_owned()),
            Err(err) => Err(fault::lives(self.lives.folder(), err).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SqliteStore, SqliteSynchronous};
    use crate::SqliteJournal;
    use harness_core::journal::{Envelope, Head, WriterId};

    #[test]
    fn facts_wait_for_what_is_set_and_holds_do_not_wait() {
        for (synchronous, number) in [(SqliteSynchronous::Full, 2), (SqliteSynchronous::Normal, 1)]
        {
            let folder = tempfile::tempdir().expect("a folder");
            let settings = SqliteJournal::builder().synchronous(synchronous);
            let mut store =
                crate::open::open_store(&settings, folder.path().join("chats.db")).expect("open");
            let fact = Envelope::stored(1, "0", WriterId::random(), 0, 0, "{}");
            let mut head = Head::default();
            for _ in 0..3 {
                store.hold("chat").expect("hold");
                assert_eq!(synchronous_setting(&store), 1);
                head = store.append("chat", head, std::slice::from_ref(&fact)).expect("append");
                assert_eq!(synchronous_setting(&store), number);
                store.release("chat".to_owned());
                assert_eq!(synchronous_setting(&store), 1);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_deleted_during_a_write_takes_nothing_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chats.db");
        let mut store =
            crate::open::open_store(&SqliteJournal::builder(), path.clone()).expect("open");
        let written = store.writing(|transaction, _, _| {
            std::fs::remove_file(folder.path().join("chats.db-wal")).expect("a log");
            transaction.execute("DELETE FROM holds", ())?;
            Ok(())
        });
        let error = written.expect_err("a failure").to_string();
        assert!(error.contains("was deleted or moved"), "{error}");
    }

    fn synchronous_setting(store: &SqliteStore) -> i64 {
        store.db.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a number")
    }
}
