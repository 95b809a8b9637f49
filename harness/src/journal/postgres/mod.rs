//! Conversations kept in PostgreSQL, for many processes on many machines.

mod builder;
mod connection;
mod facts;
mod failure;
mod leases;
mod listed;
mod pool;
mod schema;
mod spills;
mod structure;
mod target;
mod tls;

use std::{fmt, sync::Arc};

use tokio::time::timeout;

pub use self::builder::PostgresBuilder;
use self::{
    failure::Failure,
    leases::Leases,
    pool::{Pool, Taken},
    target::Target,
};
use super::{
    Conversations, Envelope, Hold, Journal, JournalFuture, Listing, Metadata, store::check_id,
};
use crate::{
    error::{Error, ErrorKind},
    unwind::Shielded,
};

/// Conversations kept in PostgreSQL (version 12 or later), with the feature `postgres`.
///
/// Use it where several machines, or many processes, serve the same conversations: any process may
/// take the next message of any conversation, and two that take the same one never both act. Where
/// one machine serves them all, `SqliteJournal` is faster and needs no server.
///
/// ```no_run
/// use harness::journal::{Journal, Listing, PostgresJournal};
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let journal = PostgresJournal::connect("postgres://app:secret@db.example/app").await?;
///     for conversation in journal.list(&Listing::new().owner("ada")).await?.conversations {
///         println!("{}: {} facts", conversation.id, conversation.facts);
///     }
///     Ok(())
/// }
/// ```
///
/// A clone is the same journal: make one for a program, and clone it.
///
/// # The address
///
/// It is that of `psql` and of PostgreSQL's other clients, as a URL or as `host=.. user=..`:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Several hosts are tried in order
/// (`postgres://app@one,two/app?target_session_attrs=read-write` finds the primary server). The
/// folder of a Unix socket is written as `postgres://app@%2Fvar%2Frun%2Fpostgresql/app`.
///
/// `sslmode=require` speaks TLS and nothing else, and always checks the server's certificate and its
/// name: against the authorities that the system trusts, and those of
/// [`root_certificates`](PostgresBuilder::root_certificates). `sslmode=prefer`, which holds if nothing
/// is said, speaks TLS where the server offers it, checked in the same way, and never to this machine
/// itself. `sslmode=disable` speaks none. Passwords are proved by SCRAM, bound to the certificate
/// where both sides can (`channel_binding`).
///
/// # What it promises
///
/// When [`append`](Journal::append) returns, the facts are committed and survive a stop of the server
/// in any way, unless the server itself runs with `fsync=off`: a session in which
/// `synchronous_commit` is `off` turns it on. Each call ends within
/// [`time_out`](PostgresBuilder::time_out), also if the server is frozen or the network is gone. A
/// connection that breaks is replaced by the next call.
///
/// [`hold`](Journal::hold) takes an advisory lock on one connection of the process, besides those of
/// [`max_connections`](PostgresBuilder::max_connections), so it is let go when the process ends in any
/// way; if its machine is gone without a word, within a minute. If this connection breaks, what it
/// held is free for others, and appends to it are still refused as soon as somebody else has gone on;
/// the next `hold` of this process takes again what nobody else has. Each conversation that is held
/// needs a place in the server's table of locks (`max_locks_per_transaction` times `max_connections`).
/// PgBouncer must pool sessions (`pool_mode = session`), for both this and the settings of a session.
///
/// A standby that takes over lacks what had not reached it, unless the server waits for it
/// (`synchronous_standby_names`): a call whose start is lost in this way runs again. An old primary
/// server must be stopped before (`target_session_attrs=read-write` finds the new one).
///
/// The connections live in the runtime that opened them. A program with several runtimes at the same
/// time gives each a journal of its own.
///
/// # The tables
///
/// They are made on first use in a [`schema`](PostgresBuilder::schema) of their own, named `harness`:
/// `conversations`, `facts` with one row a fact and its JSON text, `spills` and `chunks` with large
/// results, the sequence `changes`, and `journal_version`. For this the role needs the right to make a schema
/// (`GRANT CREATE ON DATABASE app TO app`), or an empty schema that it owns. Tables of a later version
/// are an error, and are not changed. The database must be one of `UTF8`.
///
/// # A server for tests
///
/// ```sh
/// docker run --rm -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
/// export DATABASE_URL=postgres://postgres:secret@127.0.0.1/postgres
/// ```
///
/// or, with PostgreSQL installed, `initdb -D db -U app -E UTF8 && postgres -D db -k /tmp`, which
/// answers at `postgres://app@127.0.0.1/postgres`. Tests that run at the same time take a schema each.
#[derive(Clone)]
pub struct PostgresJournal(Arc<Shared>);

struct Shared {
    target: Arc<Target>,
    pool: Pool,
    leases: Arc<Leases>,
}

impl PostgresJournal {
    /// Opens the journal at this address, such as `postgres://app:secret@db.example/app`.
    ///
    /// # Errors
    /// Fails as [`PostgresBuilder::connect`] does.
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Sets more than the address.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use harness::journal::PostgresJournal;
    ///
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let journal = PostgresJournal::builder(std::env::var("DATABASE_URL")?)
    ///     .schema("agents")
    ///     .max_connections(4)
    ///     .time_out(Duration::from_secs(10))
    ///     .root_certificates(std::fs::read("rds-ca.pem")?)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: impl Into<String>) -> PostgresBuilder {
        PostgresBuilder::new(url.into())
    }

    fn new(target: Arc<Target>, max_connections: usize) -> Self {
        let leases = Arc::new(Leases::new(Arc::clone(&target)));
        Self(Arc::new(Shared { target, pool: Pool::new(max_connections), leases }))
    }

    async fn check(&self) -> Result<(), Error> {
        self.limited("a journal was to be opened", async { self.take().await?.done(Ok(())) }).await
    }

    async fn take(&self) -> Result<Taken<'_>, Failure> {
        self.0.pool.take(&self.0.target).await
    }

    /// Runs a call to its end or to the end of its time.
    async fn limited<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Error> {
        let target = &self.0.target;
        // A runtime without sockets or a timer panics when it is asked for one.
        match Shielded::new(async { timeout(target.time_out, call).await }).await {
            Ok(Ok(done)) => done.map_err(|failure| target.error(what, failure)),
            Ok(Err(_)) => Err(target.too_late(what)),
            Err(panicked) => Err(Error::new(
                ErrorKind::Configuration,
                format!(
                    "{what}, which needs a tokio runtime with sockets and a timer: build it with \
                     `enable_all()` ({panicked})"
                ),
            )),
        }
    }
}

impl Journal for PostgresJournal {
    fn system(&self) -> &str {
        "postgresql"
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>> {
        Box::pin(self.limited("a conversation was to be read", async move {
            // No other name has ever been given to one.
            if check_id(conversation).is_err() {
                return Ok(Vec::new());
            }
            let taken = self.take().await?;
            let read = facts::read(&taken.connection, conversation, from).await;
            taken.done(read)
        }))
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()> {
        Box::pin(self.limited("facts were to be appended", async move {
            check_id(conversation)?;
            let taken = self.take().await?;
            let appended = facts::append(&taken.connection, conversation, after, facts).await;
            taken.done(appended)
        }))
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Hold> {
        Box::pin(self.limited("a conversation was to be held", async move {
            check_id(conversation)?;
            Ok(self.0.leases.hold(conversation).await?)
        }))
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(self.limited("a conversation was to be described", async move {
            check_id(conversation)?;
            let taken = self.take().await?;
            let described = listed::describe(&taken.connection, conversation, metadata).await;
            taken.done(described)
        }))
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations> {
        Box::pin(self.limited("conversations were to be listed", async move {
            let taken = self.take().await?;
            let listed = listed::list(&taken.connection, listing).await;
            taken.done(listed)
        }))
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(self.limited("a conversation was to be deleted", async move {
            let Shared { target, leases, .. } = &*self.0;
            leases.settle().await;
            let taken = self.take().await?;
            let deleted = structure::delete(&taken.connection, target, leases, conversation).await;
            taken.done(deleted)
        }))
    }

    fn fork<'a>(&'a self, from: &'a str, facts: u64, to: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(self.limited("a conversation was to be forked", async move {
            check_id(to)?;
            let taken = self.take().await?;
            let forked = structure::fork(&taken.connection, &self.0.target, from, facts, to).await;
            taken.done(forked)
        }))
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
        Box::pin(self.limited("a large result was to be kept", async move {
            check_id(conversation)?;
            let taken = self.take().await?;
            let written = spills::write(&taken.connection, conversation, name, chunk, bytes).await;
            taken.done(written)
        }))
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        Box::pin(self.limited("a large result was to be read", async move {
            if check_id(conversation).is_err() {
                return Ok(None);
            }
            let taken = self.take().await?;
            let read = spills::read(&taken.connection, conversation, name, chunk).await;
            taken.done(read)
        }))
    }

    fn delete_spill<'a>(&'a self, conversation: &'a str, name: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(self.limited("a large result was to be deleted", async move {
            if check_id(conversation).is_err() {
                return Ok(());
            }
            let taken = self.take().await?;
            let deleted = spills::delete(&taken.connection, conversation, name).await;
            taken.done(deleted)
        }))
    }
}

/// The place, without user and password.
impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { target, leases, .. } = &*self.0;
        f.debug_struct("PostgresJournal")
            .field("place", &target.place)
            .field("schema", &target.schema)
            .field("held", &leases.count())
            .finish_non_exhaustive()
    }
}
