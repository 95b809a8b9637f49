//! Runs code that may block on the runtime's threads for blocking work.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

/// Runs `work` on a thread where it may block. If the future is dropped, work that has not started yet never starts.
///
/// # Errors
/// Fails if the work panics, or if the runtime shuts down before the work starts.
pub(super) async fn off_loop<T: Send + 'static>(
    runtime: &Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    run(
        runtime,
        Box::new(move || {
            let done = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        }),
    )
    .await?;
    let done = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    done.ok_or_else(|| io::Error::other("the work has no result"))
}

/// Boxed, because tokio's code for a task is large and is compiled for each type of function.
async fn run(runtime: &Handle, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    AbortOnDropHandle::new(runtime.spawn_blocking(work)).await.map_err(io::Error::other)
}
