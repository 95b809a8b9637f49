//! The conversations that this process holds. One session of the server holds an advisory lock for each of these
//! conversations. So other processes see that these conversations are held. The server releases the locks as soon as
//! the process ends.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::types::Type;

use super::{connection::PostgresConnection, failure::PostgresFailure, target::DatabaseAddress};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Lease, busy},
};

/// The leases of this process. The journal and each lease own this value together.
pub(super) struct SharedLocks {
    target: Arc<DatabaseAddress>,
    /// The server lets one session take a lock several times, so the leases are also recorded here.
    held: Arc<HeldNames>,
    keeper: Mutex<Option<LockTask>>,
}

/// The conversations whose leases this process has, with the keys of their locks. The server may have released a lock
/// because its session broke.
#[derive(Default)]
struct HeldNames(Mutex<HashMap<String, i64>>);

impl HeldNames {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> Vec<i64> {
        self.lock().values().copied().collect()
    }
}

/// The task that runs the session with the locks.
struct LockTask {
    requests: mpsc::UnboundedSender<LockRequest>,
    task: JoinHandle<()>,
}

enum LockRequest {
    Lock { key: i64, answer: oneshot::Sender<Result<bool, Error>> },
    Unlock { key: i64 },
    Settle { answer: oneshot::Sender<()> },
}

impl Drop for LockTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SharedLocks {
    pub(super) fn new(target: Arc<DatabaseAddress>) -> Self {
        Self { target, held: Arc::default(), keeper: Mutex::default() }
    }

    /// Takes the lease of a conversation. Fails if the conversation is already held.
    pub(super) async fn hold(self: &Arc<Self>, conversation: &str) -> Result<Lease, Error> {
        let key = self.target.lock("conversation", conversation);
        match self.held.lock().entry(conversation.to_owned()) {
            Entry::Occupied(_) => return Err(busy(conversation)),
            Entry::Vacant(free) => free.insert(key),
        };
        // From here on, dropping `held` releases the lease if this call fails or is dropped.
        let held =
            PostgresLease { leases: Arc::clone(self), conversation: conversation.to_owned(), key };
        let (answer, answered) = oneshot::channel();
        self.send(LockRequest::Lock { key, answer });
        let is_ours = answered.await.unwrap_or_else(|_| {
            // The task has ended, because the runtime in which it was started has ended.
            Err(Error::new(
                ErrorKind::Journal,
                "the runtime that held conversations for this journal has ended; hold it again",
            ))
        })?;
        if is_ours { Ok(Lease::new(held)) } else { Err(busy(conversation)) }
    }

    /// Waits until all locks that were released here are free for other processes.
    pub(super) async fn settle(&self) {
        let (answer, settled) = oneshot::channel();
        self.send(LockRequest::Settle { answer });
        // Without a task, there are no locks to wait for.
        let _ = settled.await;
    }

    /// Whether this process has the lease of the conversation, even if the server has released the lock.
    pub(super) fn has(&self, conversation: &str) -> bool {
        self.held.lock().contains_key(conversation)
    }

    pub(super) fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// Sends a request to the task. A request for a lock starts the task if there is none. Other requests need no task,
    /// because nothing is locked without a task.
    fn send(&self, request: LockRequest) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lock = matches!(request, LockRequest::Lock { .. });
        if is_lock && keeper.as_ref().is_none_or(|keeper| keeper.requests.is_closed()) {
            let (requests, received) = mpsc::unbounded_channel();
            let task =
                tokio::spawn(keep(Arc::clone(&self.target), Arc::clone(&self.held), received));
            *keeper = Some(LockTask { requests, task });
        }
        if let Some(keeper) = &*keeper {
            let _ = keeper.requests.send(request);
        }
    }
}

/// The lease of a conversation. Dropping it releases the conversation.
struct PostgresLease {
    leases: Arc<SharedLocks>,
    conversation: String,
    key: i64,
}

impl Drop for PostgresLease {
    fn drop(&mut self) {
        // The map stays locked during the send. So the next holder in this process sends its request after the request
        // to unlock.
        let mut held = self.leases.held.lock();
        self.leases.send(LockRequest::Unlock { key: self.key });
        held.remove(&self.conversation);
    }
}

/// Runs the session with the locks, and handles one request after the other.
async fn keep(
    target: Arc<DatabaseAddress>,
    held: Arc<HeldNames>,
    mut requests: mpsc::UnboundedReceiver<LockRequest>,
) {
    let mut session = LockSession { target, held, connection: None, locked: HashSet::new() };
    while let Some(request) = requests.recv().await {
        match request {
            LockRequest::Lock { key, answer } => {
                let locked = session.lock(key).await;
                // If the caller no longer waits, dropping its lease sends a request to unlock.
                let _ = answer.send(locked);
            }
            LockRequest::Unlock { key } => session.unlock(key).await,
            LockRequest::Settle { answer } => drop(answer.send(())),
        }
    }
}

struct LockSession {
    target: Arc<DatabaseAddress>,
    held: Arc<HeldNames>,
    connection: Option<PostgresConnection>,
    /// The locks that this connection has taken.
    locked: HashSet<i64>,
}

impl LockSession {
    const WHAT: &str = "a conversation was to be held";

    async fn lock(&mut self, key: i64) -> Result<bool, Error> {
        let target = Arc::clone(&self.target);
        match timeout(target.time_out, self.try_lock(key)).await {
            Ok(Ok(locked)) => Ok(locked),
            Ok(Err(failure)) => {
                // If the server lacks room for another lock, the existing locks are intact. After any other failure it
                // is unknown whether the lock was taken, so the session is closed.
                if !failure.is_lack_of_room() {
                    self.lose();
                }
                Err(target.error(Self::WHAT, failure))
            }
            Err(_) => {
                self.lose();
                Err(target.too_late(Self::WHAT))
            }
        }
    }

    async fn try_lock(&mut self, key: i64) -> Result<bool, PostgresFailure> {
        if self.connection.as_ref().is_some_and(PostgresConnection::is_closed) {
            self.lose();
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connection = PostgresConnection::open(&self.target).await?;
                // If this query fails, the connection is closed, which releases everything that it has locked.
                self.locked = regain(&connection, self.held.keys()).await?;
                none.insert(connection)
            }
        };
        // `regain` has already taken this lock, together with the locks of the lost session.
        if self.locked.contains(&key) {
            return Ok(true);
        }
        let rows =
            connection.query("select pg_try_advisory_lock($1)", &[(&key, Type::INT8)]).await?;
        let is_ours = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
        if is_ours {
            self.locked.insert(key);
        }
        Ok(is_ours)
    }

    /// Releases a lock. If this fails, the session is closed with all its locks. A lock that stays would block the
    /// conversation for other processes.
    async fn unlock(&mut self, key: i64) {
        if !self.locked.remove(&key) {
            return;
        }
        let Some(connection) = &self.connection else { return };
        let values = [(&key as _, Type::INT8)];
        let unlock = connection.query("select pg_advisory_unlock($1)", &values);
        if !matches!(timeout(self.target.time_out, unlock).await, Ok(Ok(_))) {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.connection = None;
        self.locked.clear();
    }
}

/// Takes the locks of the lost session again, except those that another process has taken meanwhile.
async fn regain(
    connection: &PostgresConnection,
    keys: Vec<i64>,
) -> Result<HashSet<i64>, PostgresFailure> {
    let regain = "select key from unnest($1::bigint[]) as it(key) where pg_try_advisory_lock(key)";
    let rows = connection.query(regain, &[(&keys, Type::INT8_ARRAY)]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
