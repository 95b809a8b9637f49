//! A journal in an SQLite file. The connection runs on its own thread.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod conversations;
mod facts;
mod fault;
mod files;
mod open;
mod open_journals;
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
    open::open_store,
    store::SqliteStore,
    worker::{StoreJob, StoreThread},
};
use harness_core::error::Error;
use harness_core::journal::{
    ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Journal, JournalFuture,
    Lease, Metadata, StoredFacts, check_id,
};

/// A journal in an SQLite file (feature `sqlite`). Clones share one journal.
///
/// ```
/// use harness::{
///     Message,
///     journal::{Envelope, Fact, Head, Journal, SqliteJournal},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("chats.db");
/// let journal = SqliteJournal::open(&path).await?;
/// let said = Fact::UserSaid { message: Message::user("Hello"), limits: None };
/// journal.append("chat-17", Head::default(), &[Envelope::of(&said, 0)?]).await?;
/// drop(journal);
///
/// let journal = SqliteJournal::open(&path).await?;
/// assert_eq!(journal.read("chat-17", 0).await?.facts[0].fact()?, said);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Appended facts survive any end of the process, even `kill -9`. They also survive a crash of the system or a power
/// failure, unless [`SqliteBuilder::synchronous`] is changed.
///
/// The file may be open several times at once, in one process and in several processes. The file must be on a disk of
/// this machine, because SQLite's write-ahead log does not work over a network. SQLite adds two files to `chats.db`:
/// `chats.db-wal` and `chats.db-shm`. Move and copy the three files together. If one of these files is deleted, moved
/// or replaced while the journal is open, calls fail and write nothing more. Then drop all journals of the file, and
/// open the file again. While conversations are held, there is also the folder `chats.db-lives`.
///
/// The connection runs on its own thread. Calls are executed in the order in which they were made. An
/// [`append`](Journal::append) whose future is dropped before its turn is not executed. When the last clone and the
/// last [`Lease`] are dropped, the drop waits for the running calls and closes the file.
#[derive(Clone)]
pub struct SqliteJournal {
    worker: Arc<StoreThread>,
    path: Arc<Path>,
}

/// What a commit waits for: SQLite's setting `synchronous`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteSynchronous {
    /// A commit waits until the disk confirms the write. Appended facts survive the end of the process, a crash of the
    /// system, and a power failure, if the disk confirms only writes that are durable.
    #[default]
    Full,
    /// A commit waits until the operating system has the write, which takes much less time than a write to the disk.
    /// Appended facts survive any end of the process. If the system crashes or the power fails, the last facts may be
    /// lost, and the facts before them remain.
    Normal,
}

/// The options for opening a file: see [`SqliteJournal::builder`].
#[derive(Clone, Debug)]
pub struct SqliteBuilder {
    synchronous: SqliteSynchronous,
    busy_timeout: Duration,
    max_size: Option<u64>,
    read_only: bool,
}

impl SqliteBuilder {
    /// Sets what an append waits for. Default: [`SqliteSynchronous::Full`].
    #[must_use]
    pub fn synchronous(mut self, synchronous: SqliteSynchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how long to wait while another connection writes. Default: 5 seconds. After this time, the call fails
    /// without changing anything.
    #[must_use]
    pub fn busy_timeout(mut self, time: Duration) -> Self {
        self.busy_timeout = time;
        self
    }

    /// Sets the maximum size of the file, in bytes, for writes of this connection. Default: no limit. A call that would
    /// exceed the limit fails, and the file keeps its content. The limit is rounded down to whole pages. A file that is
    /// already larger can be read but does not grow.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.max_size = Some(bytes);
        self
    }

    /// Opens the file only for reading. Calls that would change the file fail, and a missing file is not created.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the file cannot be opened, is not
    /// a database, belongs to another application, or was made by a later version of the library. Fails with
    /// [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the path is not valid. A failed
    /// call does not change the file.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteJournal, Error> {
        // With an absolute path, the journal stays at the same file if the program changes its working directory, and
        // SQLite does not interpret a path such as `:memory:`.
        let path = path.as_ref();
        let path = std::path::absolute(path).map_err(|err| fault::no_path(path, err))?;
        let (worker, opened) =
            StoreThread::start(path.clone(), move |path| open_store(&self, path))?;
        let journal = SqliteJournal { worker: Arc::new(worker), path: path.into() };
        opened.await.unwrap_or_else(|_| Err(fault::ended(&journal.path)))?;
        Ok(journal)
    }
}

impl SqliteJournal {
    /// Opens a file with the default options, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails for the same reasons as [`SqliteBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(path).await
    }

    /// Starts a builder for other options.
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

    /// The absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the work on the thread, and waits for the result.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteStore) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.worker.ask(work).await.unwrap_or_else(|| Err(fault::ended(&self.path)))
    }
}

/// A lease that the thread has granted. Dropping this value releases the lease, even if the caller no longer waits for
/// the lease.
struct GrantedLease {
    conversation: String,
    jobs: mpsc::Sender<StoreJob>,
}

impl Drop for GrantedLease {
    fn drop(&mut self) {
        let conversation = std::mem::take(&mut self.conversation);
        // If the thread has ended, its leases have ended too.
        drop(self.jobs.send(Box::new(move |store| store.release(conversation))));
    }
}

impl Journal for SqliteJournal {
    fn system(&self) -> &str {
        "sqlite"
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let conversation = conversation.to_owned();
            self.ask(move |store| store.read(&conversation, from)).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(conversation)?;
            let (conversation, facts) = (conversation.to_owned(), facts.to_vec());
            self.ask(move |store| store.append(&conversation, after, &facts)).await
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            check_id(conversation)?;
            let (conversation, jobs) = (conversation.to_owned(), self.worker.jobs());
            let granted = self
                .ask(move |store| {
                    store.hold(&conversation)?;
                    Ok(GrantedLease { conversation, jobs })
                })
                .await?;
            // The order of the two values matters: the thread ends only after all senders are dropped.
            Ok(Lease::new((granted, Arc::clone(&self.worker))))
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

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
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

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(to)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            self.ask(move |store| store.fork(&from, at, &to)).await
        })
    }

    fn can_keep_spills(&self) -> bool {
        true
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let (conversation, name) = (conversation.to_owned(), name.to_owned());
            let bytes = bytes.to_vec();
            self.ask(move |store| {
                store.write_spill(&conversation, incarnation, &name, chunk, &bytes)
            })
            .await
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

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let (conversation, name) = (conversation.to_owned(), name.to_owned());
            self.ask(move |store| store.delete_spill(&conversation, incarnation, &name)).await
        })
    }
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal").field("path", &PathBuf::from(&*self.path)).finish()
    }
}
