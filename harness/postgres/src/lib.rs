//! A journal in PostgreSQL, for many processes on many machines.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

mod auth_guard;
mod builder;
mod connection;
mod facts;
mod failure;
mod leases;
mod listing;
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
    failure::PostgresFailure,
    leases::SharedLocks,
    pool::{ConnectionPool, PooledConnection},
    target::DatabaseAddress,
};
use harness_core::journal::{
    ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Journal, JournalFuture,
    Lease, Metadata, StoredFacts, check_id,
};
use harness_core::{
    error::{Error, ErrorKind},
    unwind::Shielded,
};

/// A journal in PostgreSQL (version 12 or later), with the feature `postgres`.
///
/// Use it if several machines or many processes serve the same conversations: any process may take the next message of
/// any conversation, and if two processes take the same message, only one of them acts on it. If one machine serves all
/// conversations, `SqliteJournal` is faster and needs no server.
///
/// ```no_run
/// use harness::journal::{Journal, ConversationQuery, PostgresJournal};
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let journal = PostgresJournal::connect("postgres://app:secret@db.example/app").await?;
///     for conversation in journal.list(&ConversationQuery::new().owner("ada")).await?.conversations {
///         println!("{}: {} facts", conversation.id, conversation.facts);
///     }
///     Ok(())
/// }
/// ```
///
/// Clones share one journal. Create one journal for a program, and clone it.
///
/// # The address
///
/// The address has the format of `psql` and other clients of PostgreSQL: a URL
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `host=.. user=..`. Several hosts are tried in order
/// (`postgres://app@one,two/app?target_session_attrs=read-write` finds the primary server). The folder of a Unix socket
/// is written as `postgres://app@%2Fvar%2Frun%2Fpostgresql/app`.
///
/// `sslmode=require` always uses TLS and checks the server's certificate and name, against the authorities that the
/// system trusts and the authorities in [`root_certificates`](PostgresBuilder::root_certificates). `sslmode=prefer`,
/// the default, uses TLS with the same checks if the server offers TLS. For a server on this machine, `prefer` never
/// uses TLS. `sslmode=disable` never uses TLS.
///
/// # How the password is proved
///
/// A server that receives the password in cleartext or as MD5 learns enough to log in elsewhere. With `sslmode=prefer`,
/// anyone between client and server can pretend to be the server. So the journal does not send the password, but only
/// proves by SCRAM that it has the password:
///
/// | connection | what the server may ask for |
/// |---|---|
/// | TCP with TLS | SCRAM, bound to the certificate if both sides support that (`channel_binding=require` insists). With [`allow_plain_password_over_tls`](PostgresBuilder::allow_plain_password_over_tls) anything |
/// | TCP without TLS, also to this machine | SCRAM. With [`allow_plain_password_without_tls`](PostgresBuilder::allow_plain_password_without_tls) anything |
/// | Unix socket | anything: the folder of the socket decides who can be the server. A folder in which every user can make files, such as `/tmp`, is refused if the address has a password, unless `allow_plain_password_without_tls` is called |
///
/// The journal also refuses a proof with fewer than 4096 iterations (PostgreSQL's default), because the server could
/// guess the password from the proof. The error names the form that the server requested. Without TLS, an attacker who
/// can change the traffic does not learn the password, but can read the session and send statements in it. So use
/// `sslmode=require` over a network.
///
/// # What it promises
///
/// When [`append`](Journal::append) returns, the facts are committed and survive any stop of the server, unless the
/// server runs with `fsync=off`. If `synchronous_commit` is `off`, the journal's sessions turn it on. Each call ends
/// within [`time_out`](PostgresBuilder::time_out), even if the server hangs or the network is down. A broken connection
/// is replaced by the next call.
///
/// [`hold`](Journal::hold) takes an advisory lock. One connection of the process has all these locks. This connection
/// does not count for [`max_connections`](PostgresBuilder::max_connections). The lock is released when the process ends
/// in any way, or within a minute if its machine disappears. If the connection with the locks breaks, other processes
/// can hold the conversations of this process. Appends of this process are still refused as soon as another process has
/// continued the conversation. The next `hold` of this process takes the locks again, except those that another process
/// has taken meanwhile. Each held conversation needs an entry in the server's table of locks
/// (`max_locks_per_transaction` times `max_connections`). PgBouncer must pool sessions (`pool_mode = session`), because
/// of the locks and of the settings of a session.
///
/// If a standby server takes over, facts that it has not received yet are lost, unless the primary server waits for the
/// standby (`synchronous_standby_names`). If the lost facts contain the start of a call, the call runs again. The old
/// primary server must be stopped first (`target_session_attrs=read-write` finds the new primary server).
///
/// The connections belong to the runtime that has opened them. A program with several concurrent runtimes needs one
/// journal for each.
///
/// # The tables
///
/// The tables are created on first use in their own [`schema`](PostgresBuilder::schema), named
/// `harness`: `conversations`, `facts` with one row for each fact and its JSON text, `spills` and
/// `chunks` with large results, the sequence `changes`, and `journal_version`. For this, the role
/// needs the right to create a schema (`GRANT CREATE ON DATABASE app TO app`), or an empty schema
/// that it owns. Tables of a later version are an error and are not changed. The encoding of the
/// database must be `UTF8`.
///
/// # A server for tests
///
/// ```sh
/// docker run --rm -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
/// export DATABASE_URL=postgres://postgres:secret@127.0.0.1/postgres
/// ```
///
/// or, if PostgreSQL is installed, `initdb -D db -U app -E UTF8 && postgres -D db -k /tmp`, which
/// answers at `postgres://app@127.0.0.1/postgres`. Tests that run at the same time need a schema
/// each.
#[derive(Clone)]
pub struct PostgresJournal(Arc<PostgresState>);

struct PostgresState {
    target: Arc<DatabaseAddress>,
    pool: ConnectionPool,
    leases: Arc<SharedLocks>,
}

impl PostgresJournal {
    /// Connects to the journal at this address, such as `postgres://app:secret@db.example/app`.
    ///
    /// # Errors
    /// Fails for the same reasons as [`PostgresBuilder::connect`].
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Starts a builder for options other than the address.
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

    fn new(target: Arc<DatabaseAddress>, max_connections: usize) -> Self {
        let leases = Arc::new(SharedLocks::new(Arc::clone(&target)));
        Self(Arc::new(PostgresState { target, pool: ConnectionPool::new(max_connections), leases }))
    }

    async fn check(&self) -> Result<(), Error> {
        self.limited("a journal was to be opened", async { self.take().await?.done(Ok(())) }).await
    }

    async fn take(&self) -> Result<PooledConnection<'_>, PostgresFailure> {
        self.0.pool.take(&self.0.target).await
    }

    /// Runs a call until it ends or exceeds the time limit.
    async fn limited<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, PostgresFailure>> + Send,
    ) -> Result<T, Error> {
        let target = &self.0.target;
        // Sockets and timers panic in a runtime that does not enable them.
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

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(self.limited("a conversation was to be read", async move {
            // No conversation can have an invalid id.
            if check_id(conversation).is_err() {
                return Ok(StoredFacts::default());
            }
            let taken = self.take().await?;
            let read = facts::read(&taken.connection, conversation, from).await;
            taken.done(read)
        }))
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(self.limited("facts were to be appended", async move {
            check_id(conversation)?;
            let taken = self.take().await?;
            let appended = facts::append(&taken.connection, conversation, after, facts).await;
            taken.done(appended)
        }))
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
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
            let described = listing::describe(&taken.connection, conversation, metadata).await;
            taken.done(described)
        }))
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        Box::pin(self.limited("conversations were to be listed", async move {
            let taken = self.take().await?;
            let listed = listing::list(&taken.connection, listing).await;
            taken.done(listed)
        }))
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(self.limited("a conversation was to be deleted", async move {
            let PostgresState { target, leases, .. } = &*self.0;
            leases.settle().await;
            let taken = self.take().await?;
            let deleted = structure::delete(&taken.connection, target, leases, conversation).await;
            taken.done(deleted)
        }))
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(self.limited("a conversation was to be forked", async move {
            check_id(to)?;
            let taken = self.take().await?;
            let forked = structure::fork(&taken.connection, &self.0.target, from, at, to).await;
            taken.done(forked)
        }))
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
        Box::pin(self.limited("a large result was to be kept", async move {
            check_id(conversation)?;
            let taken = self.take().await?;
            let of = (conversation, incarnation);
            let written = spills::write(&taken.connection, of, name, chunk, bytes).await;
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

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        Box::pin(self.limited("a large result was to be deleted", async move {
            if check_id(conversation).is_err() {
                return Ok(());
            }
            let taken = self.take().await?;
            let of = (conversation, incarnation);
            let deleted = spills::delete(&taken.connection, of, name).await;
            taken.done(deleted)
        }))
    }
}

/// Shows host, port and database, without the user and the password.
impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PostgresState { target, leases, .. } = &*self.0;
        f.debug_struct("PostgresJournal")
            .field("place", &target.place)
            .field("schema", &target.schema)
            .field("held", &leases.count())
            .finish_non_exhaustive()
    }
}
