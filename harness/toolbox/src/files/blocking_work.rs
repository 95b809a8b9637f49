//! Blocking work away from the async loop, which stops when nobody waits for it any more.

use std::thread;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::DropGuard;

use harness_core::tool::{CancellationToken, ToolError};

/// The places of searches: each may need 30 MB, and a processor.
pub(super) static SEARCHES: Semaphore = Semaphore::const_new(8);

/// The places of other work, all of which waits for the disk.
pub(super) static OTHERS: Semaphore = Semaphore::const_new(32);

/// Tells blocking work to stop. The work checks it between its steps.
#[derive(Clone, Debug)]
pub(super) struct StopCheck(CancellationToken);

impl StopCheck {
    /// # Errors
    /// Fails if the work has to end.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.0.is_cancelled() { Err(stopped()) } else { Ok(()) }
    }
}

fn stopped() -> ToolError {
    ToolError::new("stopped before its end, because the run was")
}

/// Runs blocking work, when one of these places is free. It is told to stop when `token` is cancelled and when the future
/// is dropped.
///
/// A thread of its own does it: the process would not end while a blocking thread of the runtime works, such as one that waits
/// for a disk.
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
        // The place is free when the work has ended, not when nobody waits for it any more.
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
