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

/// A connection that was idle for longer than this time is checked before use, because a firewall may have dropped it.
const UNUSED: Duration = Duration::from_secs(30);

/// The time limit for the check of an idle connection. After this time, a new connection is made.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// The idle connections, and the limit for connections in use.
pub(super) struct ConnectionPool {
    places: Semaphore,
    idle: Mutex<Vec<PostgresConnection>>,
}

/// A connection in use. Dropping this value closes the connection, so that a cancelled or failed call cannot affect the
/// next call.
pub(super) struct PooledConnection<'a> {
    pub(super) connection: PostgresConnection,
    pool: &'a ConnectionPool,
    _place: SemaphorePermit<'a>,
}

impl ConnectionPool {
    pub(super) fn new(size: usize) -> Self {
        Self { places: Semaphore::new(size), idle: Mutex::new(Vec::new()) }
    }

    /// Waits for a free slot, and connects if no idle connection works.
    pub(super) async fn take(
        &self,
        target: &DatabaseAddress,
    ) -> Result<PooledConnection<'_>, PostgresFailure> {
        // The semaphore is never closed, so `acquire` does not fail.
        let place = self.places.acquire().await;
        let place =
            place.map_err(|err| Error::new(ErrorKind::Journal, "no place").with_source(err))?;
        // A blocked thread may not have noticed closed connections. The first yield lets the runtime notice them, and
        // the second yield lets the tasks of the connections end.
        yield_now().await;
        yield_now().await;
        while let Some(mut connection) = self.next_idle() {
            if connection.is_closed() {
                continue;
            }
            if connection.used.elapsed() >= UNUSED {
                match timeout(SIGN_OF_LIFE.min(target.time_out), connection.check()).await {
                    Ok(Ok(())) => connection.used = Instant::now(),
                    // The other connections have been idle for an even longer time, so they are broken, too.
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
    /// Ends a call with this result. The connection goes back to the pool, unless the database failed.
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
