//! All limits of the service. A request that is over one of them is told which.

use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The status and the text of a request that has failed.
pub(crate) type Failed = (StatusCode, String);

/// How many bytes the body of a request may have.
pub(crate) const LARGEST_BODY: usize = 4 << 20;

/// How many bytes the file of traces may have for the page of a trace.
pub(crate) const LARGEST_TRACE: u64 = 64 << 20;

/// How long a client may take to send the head of a request. Its connection is closed then, also if no request follows.
pub(crate) const LONGEST_HEAD: Duration = Duration::from_secs(10);

/// How long a request may take to be read and answered. Of a stream, this is the time to its head.
pub(crate) const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// How long a run may take, without the time in which it waits for a person.
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(600);

/// How many connections may be open. More of them wait.
pub(crate) static CONNECTIONS: AtOnce = AtOnce::new("connections", 2000);

pub(crate) static RUNS: AtOnce = AtOnce::new("runs", 64);

/// How many responses may be streams.
pub(crate) static STREAMS: AtOnce = AtOnce::new("streams", 1000);

/// Of how many conversations it is remembered how many calls wait.
pub(crate) const MOST_COUNTED: usize = 10_000;

/// How many pages of traces may be in the making.
pub(crate) static TRACES: AtOnce = AtOnce::new("pages of traces", 2);

/// A limit of what goes on at once.
pub(crate) struct AtOnce {
    what: &'static str,
    pub(crate) most: u32,
    pub(crate) free: Semaphore,
}

/// A place of what goes on. It is free again when this is dropped.
pub(crate) type Place = SemaphorePermit<'static>;

impl AtOnce {
    const fn new(what: &'static str, most: u32) -> Self {
        Self { what, most, free: Semaphore::const_new(most as usize) }
    }

    /// How many streams one user may have, if there are users. They stay as long as the service.
    pub(crate) fn of_user() -> &'static Self {
        Box::leak(Box::new(Self::new("streams of a user", 200)))
    }

    pub(crate) fn take(&'static self) -> Result<Place, Failed> {
        let full = format!("{} {} at once are the limit: try again later", self.most, self.what);
        self.free.try_acquire().map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, full))
    }
}
