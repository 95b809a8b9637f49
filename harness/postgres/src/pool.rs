//! The connections of a journal: a limited number, each used by one call at a time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::yield_now,
    time::{Instant, timeout},
};

use super::{connection::PostgresConnection, failure::PostgresFailure, target::DatabaseAddress};
use harness_core::error::{Error, ErrorKind};

/// After this time without use, a connection is checked, because a firewall may have dropped it.
const UNUSED: Duration = Duration::from_secs(30);

/// How long the check may take. Then a new connection is made.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// The connections that are not in use, and the number that there may be.
pub(super) struct ConnectionPool {
    places: Semaphore,
    idle: Mutex<Vec<PostgresConnection>>,
}

/// A connection that is in use. Dropping this value closes the connection, so a call that was
/// cancelled or has failed cannot affect the next one.
pub(super) struct PooledConnection<'a> {
    pub(super) connection: PostgresConnection,
    pool: &'a ConnectionPool,
    _place: SemaphorePermit<'a>,
}

impl ConnectionPool {
    pub(super) fn new(size: usize) -> Self {
        Self { places: Semaphore::new(size), idle: Mutex::new(Vec::new()) }
    }

    /// Waits for a place, and connects if there is no working connection.
    pub(super) async fn take(
        &self,
        target: &DatabaseAddress,
    ) -> Result<PooledConnection<'_>, PostgresFailure> {
        // The semaphore is never closed.
        let place = self.places.acquire().await;
        let place =
            place.map_err(|err| Error::new(ErrorKind::Journal, "no place").with_source(err))?;
        // If the program has blocked this thread, closed connections are noticed only now: first by
        // the runtime, and then by the tasks of the connections.
        yield_now().await;
        yield_now().await;
        while let Some(mut connection) = self.next_idle() {
            if connection.is_closed() {
                continue;
            }
            if connection.used.elapsed() >= UNUSED {
                match timeout(SIGN_OF_LIFE.min(target.time_out), connection.check()).await {
                    Ok(Ok(())) => connection.used = Instant::now(),
                    // The other connections have been unused for longer, so they are broken, too.
                    Ok(Err(_)) | Err(_) => {
                        self.forget_idle();
                        continue;
                    }
                }
            }
            return Ok(PooledConnection { connection, pool: self, _place: place });
        }
        let connection = PostgresConnection::open(target).await?;
        Ok(PooledConnection { connection, pool: self, _place: place })
    }

    fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn next_idle(&self) -> Option<PostgresConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

impl PooledConnection<'_> {
    /// Ends a call with this result. The connection is kept, unless the database failed.
    pub(super) fn done<T>(self, done: Result<T, PostgresFailure>) -> Result<T, PostgresFailure> {
        if !matches!(done, Err(PostgresFailure::Database(_))) {
            self.give_back();
        }
        done
    }

    fn give_back(self) {
        let Self { mut connection, pool, _place: _ } = self;
        if !connection.is_closed() {
            connection.used = Instant::now();
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
