//! Runs blocking work outside of the async runtime, and stops the work when no caller waits for its result any more.

use std::thread;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::DropGuard;

use harness_core::tool::{CancellationToken, ToolError};

/// Limits concurrent searches: each may need 30 MB of memory and one processor.
pub(super) static SEARCHES: Semaphore = Semaphore::const_new(8);

/// Limits all other concurrent work, which only waits for the disk.
pub(super) static OTHERS: Semaphore = Semaphore::const_new(32);

/// A signal that blocking work has to stop. The work checks for this signal between its steps.
#[derive(Clone, Debug)]
pub(super) struct StopCheck(CancellationToken);

impl StopCheck {
    /// Returns an error if the work has to stop.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.0.is_cancelled() { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> ToolError {
    ToolError::new("stopped before its end, because the run was")
}

/// Runs blocking work as soon as one of these slots is free. When `token` is cancelled or this future is dropped, the
/// work gets a signal to stop.
///
/// The work has its own thread, so that it does not delay the end of the process: the runtime would wait for its own
/// blocking threads, and a disk may be slow.
pub(super) async fn off_loop<T: Send + 'static>(
    places: &'static Semaphore,
    token: &CancellationToken,
    work: impl FnOnce(&StopCheck) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let token = token.child_token();
    let stop = StopCheck(token.clone());
    let _told: DropGuard = token.clone().drop_guard();
    let place = tokio::select! {
        place = places.acquire() => place.map_err(|closed| stopped().with_source(closed))?,
        () = token.cancelled() => return Err(stopped()),
    };
    let (done, end) = oneshot::channel();
    let worker = thread::Builder::new().name("harness-files".to_owned()).spawn(move || {
        // The slot is freed when the work has ended, even if the caller no longer waits.
        let _place = place;
        let result = stop.check().and_then(|()| work(&stop));
        let _ = done.send(result);
    });
    let worker = worker.map_err(|err| {
        ToolError::new("no thread can be started for it; try again later").with_source(err)
    })?;
    match end.await {
        Ok(result) => result,
        Err(_) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err(stopped()),
        },
    }
}
