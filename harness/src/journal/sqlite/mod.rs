//! Conversations in a file: SQLite, with a thread of its own for the connection.

mod conversations;
mod facts;
mod fault;
mod lives;
mod open;
mod spills;
mod store;
mod worker;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use self::{
    store::Store,
    worker::{Job, Worker},
};
use super::{
    Conversations, Envelope, Hold, Journal, JournalFuture, Listing, Metadata, store::check_id,
};
use crate::error::Error;

/// Conversations in a file of SQLite (feature `sqlite`). A clone is the same journal.
///
/// ```
/// use harness::{
///     Message,
///     journal::{Entry, Envelope, Journal, SqliteJournal},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("chats.db");
/// let journal = SqliteJournal::open(&path).await?;
/// let said = Entry::UserSaid { message: Message::user("Hello"), limits: None };
/// journal.append("chat-17", 0, &[Envelope::of(&said, 0)?]).await?;
/// drop(journal);
///
/// let journal = SqliteJournal::open(&path).await?;
/// assert_eq!(journal.read("chat-17", 0).await?[0].entry()?, said);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What was appended survives the end of the process in any way, `kill -9` too, and the end of the
/// system or its power, unless [`SqliteBuilder::synchronous`] says otherwise.
///
/// Several processes may have the file open at the same time, and one process several times. It must
/// be on a disk of this machine: the write-ahead log of SQLite does not work over a network. Beside
/// the file `chats.db` there are `chats.db-wal` and `chats.db-shm`, which belong to it and are moved
/// and copied with it, and the folder `chats.db-lives` while conversations are held.
///
/// The connection has a thread of its own. What is asked is done in the order in which it was asked.
/// An [`append`](Journal::append) whose future is dropped before its turn is not done. When the last
/// clone and the last [`Hold`] are dropped, the drop waits for what is under way, and the file is
/// closed.
#[derive(Clone)]
pub struct SqliteJournal {
    worker: Arc<Worker>,
    path: Arc<Path>,
}

/// What `commit` waits for: the `synchronous` of SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteSynchronous {
    /// Until the disk says that it has it. What was appended survives the end of the process, of the
    /// system, and of its power, if the disk tells the truth.
    #[default]
    Full,
    /// Until the system has it. What was appended survives the end of the process in any way; what
    /// was appended last may be lost when the system ends without shutting down or the power fails,
    /// and what is left is a beginning of what there was. An append takes a small part of the time.
    Normal,
}

/// How a file is opened. [`SqliteJournal::builder`] begins one.
#[derive(Clone, Debug)]
pub struct SqliteBuilder {
    synchronous: SqliteSynchronous,
    busy_timeout: Duration,
    max_size: Option<u64>,
    read_only: bool,
}

impl SqliteBuilder {
    /// Sets what an append waits for; the disk unless set.
    #[must_use]
    pub fn synchronous(mut self, synchronous: SqliteSynchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets for how long to wait while another connection writes, 5 s unless set; then the call
    /// fails, and nothing was done.
    #[must_use]
    pub fn busy_timeout(mut self, time: Duration) -> Self {
        self.busy_timeout = time;
        self
    }

    /// Sets how large this connection may make the file, in bytes; without it, the disk is the limit.
    /// A call that would make it larger fails, and what is there stays. The limit is rounded to
    /// pages, and a file that is larger already is read and not made larger.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.max_size = Some(bytes);
        self
    }

    /// Opens the file for reading alone: what would change it fails. The file is not made if it does
    /// not exist.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Opens the file, and makes it if it does not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](crate::ErrorKind::Journal) if the file cannot be opened, is
    /// no database, belongs to another application, or was made by a later version of the library. It
    /// is not changed then.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteJournal, Error> {
        // A path that is relative, or that SQLite takes for something else, such as `:memory:`, is
        // the same file wherever the program goes.
        let path = path.as_ref();
        let path = std::path::absolute(path).map_err(|err| fault::no_path(path, err))?;
        let (worker, opened) = Worker::start(path.clone(), move |path| Store::open(&self, path))?;
        let journal = SqliteJournal { worker: Arc::new(worker), path: path.into() };
        opened.await.unwrap_or_else(|_| Err(fault::ended(&journal.path)))?;
        Ok(journal)
    }
}

impl SqliteJournal {
    /// Opens a file, and makes it if it does not exist, with all as [`SqliteBuilder`] has it unless
    /// set.
    ///
    /// # Errors
    /// Fails as [`SqliteBuilder::open`] does.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(path).await
    }

    /// Begins to open a file otherwise.
    ///
    /// ```
    /// use harness::journal::{SqliteJournal, SqliteSynchronous};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("chats.db");
    /// let journal = SqliteJournal::builder()
    ///     .synchronous(SqliteSynchronous::Normal)
    ///     .max_size(1 << 30)
    ///     .open(&path)
    ///     .await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> SqliteBuilder {
        SqliteBuilder {
            synchronous: SqliteSynchronous::default(),
            busy_timeout: Duration::from_secs(5),
            max_size: None,
            read_only: false,
        }
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the thread do it, and waits.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.worker.ask(work).await.unwrap_or_else(|| Err(fault::ended(&self.path)))
    }
}

/// A hold that the thread has given. Where nobody takes it, it ends.
struct Granted {
    conversation: String,
    jobs: mpsc::Sender<Job>,
}

impl Drop for Granted {
    fn drop(&mut self) {
        let conversation = std::mem::take(&mut self.conversation);
        // Where the thread has ended, its holds have ended with it.
        drop(self.jobs.send(Box::new(move |store| store.release(conversation))));
    }
}

impl Journal for SqliteJournal {
    fn system(&self) -> &str {
        "sqlite"
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>> {
        Box::pin(async move {
            let conversation = conversation.to_owned();
            self.ask(move |store| store.read(&conversation, from)).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(conversation)?;
            let (conversation, facts) = (conversation.to_owned(), facts.to_vec());
            self.ask(move |store| store.append(&conversation, after, &facts)).await
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Hold> {
        Box::pin(async move {
            check_id(conversation)?;
            let (conversation, jobs) = (conversation.to_owned(), self.worker.jobs());
            let granted = self
                .ask(move |store| {
                    store.hold(&conversation)?;
                    Ok(Granted { conversation, jobs })
                })
                .await?;
            // In this order: the thread ends when nobody can ask it any more.
            Ok(Hold::new((granted, Arc::clone(&self.worker))))
        })
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(conversation)?;
            let (conversation, metadata) = (conversation.to_owned(), metadata.clone());
            self.ask(move |store| store.describe(&conversation, &metadata)).await
        })
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations> {
        Box::pin(async move {
            let listing = listing.clone();
            self.ask(move |store| store.list(&listing)).await
        })
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(async move {
            let conversation = conversation.to_owned();
            self.ask(move |store| store.delete(&conversation)).await
        })
    }

    fn fork<'a>(&'a self, from: &'a str, facts: u64, to: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(to)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            self.ask(move |store| store.fork(&from, facts, &to)).await
        })
    }

    fn keeps_spills(&self) -> bool {
        true
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let (conversation, name) = (conversation.to_owned(), name.to_owned());
            let bytes = bytes.to_vec();
            self.ask(move |store| store.write_spill(&conversation, &name, chunk, &bytes)).await
        })
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let (conversation, name) = (conversation.to_owned(), name.to_owned());
            self.ask(move |store| store.read_spill(&conversation, &name, chunk)).await
        })
    }

    fn delete_spill<'a>(&'a self, conversation: &'a str, name: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let (conversation, name) = (conversation.to_owned(), name.to_owned());
            self.ask(move |store| store.delete_spill(&conversation, &name)).await
        })
    }
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal").field("path", &PathBuf::from(&*self.path)).finish()
    }
}
