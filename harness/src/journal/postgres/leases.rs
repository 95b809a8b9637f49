//! Which conversations this process holds. Others see it as advisory locks of one session of the
//! server: they are gone as soon as the process is, however it ends.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::types::Type;

use super::{connection::Connection, failure::Failure, target::Target};
use crate::{
    error::{Error, ErrorKind},
    journal::store::{Hold, busy},
};

/// What this process holds. It lives as long as the journal and everything that is held.
pub(super) struct Leases {
    target: Arc<Target>,
    /// The server lets one session take a lock several times, so this is known here.
    held: Mutex<HashSet<String>>,
    keeper: Mutex<Option<Keeper>>,
}

/// The task with the session that has the locks.
struct Keeper {
    requests: mpsc::UnboundedSender<Request>,
    task: JoinHandle<()>,
}

enum Request {
    Lock { key: i64, answer: oneshot::Sender<Result<bool, Error>> },
    Unlock { key: i64 },
    Settle { answer: oneshot::Sender<()> },
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Leases {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { target, held: Mutex::default(), keeper: Mutex::default() }
    }

    /// Holds a conversation, unless it is held.
    pub(super) async fn hold(self: &Arc<Self>, conversation: &str) -> Result<Hold, Error> {
        if !self.lock_held().insert(conversation.to_owned()) {
            return Err(busy(conversation));
        }
        // From here on, whatever happens to this call, it is let go of.
        let key = self.target.lock("conversation", conversation);
        let held = Held { leases: Arc::clone(self), conversation: conversation.to_owned(), key };
        let (answer, answered) = oneshot::channel();
        self.send(Request::Lock { key, answer });
        let is_ours = answered.await.unwrap_or_else(|_| {
            // The task has ended with the runtime that it was started in.
            Err(Error::new(
                ErrorKind::Journal,
                "the runtime that held conversations for this journal has ended; hold it again",
            ))
        })?;
        if is_ours { Ok(Hold::new(held)) } else { Err(busy(conversation)) }
    }

    /// Waits until everything that was let go of here is free for others, too.
    pub(super) async fn settle(&self) {
        let (answer, settled) = oneshot::channel();
        self.send(Request::Settle { answer });
        // Without a task, nothing is locked.
        let _ = settled.await;
    }

    /// Whether this process holds it, or believes so.
    pub(super) fn has(&self, conversation: &str) -> bool {
        self.lock_held().contains(conversation)
    }

    pub(super) fn count(&self) -> usize {
        self.lock_held().len()
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the task. A request for a lock makes a new one if there is none; without one, nothing is
    /// locked.
    fn send(&self, request: Request) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lock = matches!(request, Request::Lock { .. });
        if is_lock && keeper.as_ref().is_none_or(|keeper| keeper.requests.is_closed()) {
            let (requests, received) = mpsc::unbounded_channel();
            let task = tokio::spawn(keep(Arc::clone(&self.target), received));
            *keeper = Some(Keeper { requests, task });
        }
        if let Some(keeper) = &*keeper {
            let _ = keeper.requests.send(request);
        }
    }
}

/// What is held until it is dropped.
struct Held {
    leases: Arc<Leases>,
    conversation: String,
    key: i64,
}

impl Drop for Held {
    fn drop(&mut self) {
        // In this order: who holds it next here asks for the lock after it was given back.
        let mut held = self.leases.lock_held();
        self.leases.send(Request::Unlock { key: self.key });
        held.remove(&self.conversation);
    }
}

/// Holds the session with the locks, one request after the other.
async fn keep(target: Arc<Target>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut session = Session { target, connection: None, locked: HashSet::new() };
    while let Some(request) = requests.recv().await {
        match request {
            Request::Lock { key, answer } => {
                let locked = session.lock(key).await;
                // If nobody waits for it any more, the request to unlock it follows.
                let _ = answer.send(locked);
            }
            Request::Unlock { key } => session.unlock(key).await,
            Request::Settle { answer } => drop(answer.send(())),
        }
    }
}

struct Session {
    target: Arc<Target>,
    connection: Option<Connection>,
    /// The locks of this connection.
    locked: HashSet<i64>,
}

impl Session {
    const WHAT: &str = "a conversation was to be held";

    async fn lock(&mut self, key: i64) -> Result<bool, Error> {
        let target = Arc::clone(&self.target);
        let done = timeout(target.time_out, self.try_lock(key)).await;
        let locked = match done {
            Ok(Ok(locked)) => Ok(locked),
            Ok(Err(failure)) => Err(target.error(Self::WHAT, failure)),
            Err(_) => Err(target.too_late(Self::WHAT)),
        };
        if locked.is_err() {
            self.lose();
        }
        locked
    }

    async fn try_lock(&mut self, key: i64) -> Result<bool, Failure> {
        if self.connection.as_ref().is_some_and(Connection::is_closed) {
            self.lose();
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.target).await?),
        };
        let rows =
            connection.query("select pg_try_advisory_lock($1)", &[(&key, Type::INT8)]).await?;
        let is_ours = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
        if is_ours {
            self.locked.insert(key);
        }
        Ok(is_ours)
    }

    /// Gives a lock back. If that cannot be, the session is closed, and all its locks with it: nobody
    /// waits in vain for a conversation that nobody holds.
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
