//! Blocking work away from the async loop, which stops when nobody waits for it any more.

use tokio_util::sync::DropGuard;

use crate::tool::{CancellationToken, ToolError};

/// Blocking work checks this between its steps.
#[derive(Clone, Debug)]
pub(super) struct Stop(CancellationToken);

impl Stop {
    /// # Errors
    /// Fails if the work has to end.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.0.is_cancelled() {
            return Err(ToolError::new("stopped before its end, because the run was"));
        }
        Ok(())
    }
}

/// Runs blocking work. It is told to stop when `token` is cancelled and when the future is dropped.
pub(super) async fn off_loop<T: Send + 'static>(
    token: &CancellationToken,
    work: impl FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let token = token.child_token();
    let stop = Stop(token.clone());
    let _told: DropGuard = token.drop_guard();
    let worker = tokio::task::spawn_blocking(move || {
        stop.check()?;
        work(&stop)
    });
    match worker.await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(ended) => Err(ToolError::new("stopped, because the program ends").because(ended)),
        },
    }
}
