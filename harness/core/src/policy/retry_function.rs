//! Runs a function of the program under a retry policy.

use tokio::{runtime::Handle, time::Instant};

use super::{RetryPolicy, RetryVerdict};
use crate::{
    error::{Error, ErrorKind},
    provider::RetryCost,
    unwind::caught,
};

impl RetryPolicy {
    /// Calls an async function of the program until it succeeds or the policy gives up. `attempt` gets the number of
    /// the attempt, starting at 1, and returns the future of that attempt.
    ///
    /// [`decide`](Self::decide) makes the same decisions as for a provider: which errors are retried, how long the
    /// waits are, and when to give up. A wait is never shorter than the [`retry_after`](Error::retry_after) of the
    /// error. One call of `run` counts both as one call and as one run. `after_output` and `reconnect` do not apply.
    /// Dropping the future ends the attempt or the wait at once. If the function has an error type of its own, wrap it:
    /// describe the failure with [`Error::new`] and set the original error as the cause.
    ///
    /// ```
    /// use harness::{Error, ErrorKind, policy::RetryPolicy};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// # .block_on(async {
    /// let policy = RetryPolicy { attempts: 5, ..RetryPolicy::default() };
    /// let page = policy
    ///     .run(|attempt| async move {
    ///         match attempt {
    ///             1 => Err(Error::new(ErrorKind::Api, "overloaded").with_status(503)),
    ///             _ => Ok("the page"),
    ///         }
    ///     })
    ///     .await?;
    /// assert_eq!(page, "the page");
    /// # Ok::<(), harness::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The first failure, with [all later failures](Error::later). [`Error::is_retry_budget_exhausted`] returns `true`
    /// if the last failure could be retried but attempts or time are used up. [`ErrorKind::Configuration`] if a wait is
    /// due and no tokio runtime with a timer exists.
    pub async fn run<T, Attempted>(
        self,
        mut attempt: impl FnMut(u32) -> Attempted,
    ) -> Result<T, Error>
    where
        Attempted: Future<Output = Result<T, Error>>,
    {
        let mut lost = RetryCost::default();
        let mut first: Option<Error> = None;
        loop {
            let begun = Instant::now();
            let error = match attempt(lost.attempts.saturating_add(1)).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            lost.attempts = lost.attempts.saturating_add(1);
            lost.time = lost.time.saturating_add(begun.elapsed());
            let verdict = self.decide(&error, lost, lost, fastrand::f64());
            let failed = match first.take() {
                None => error,
                Some(first) => first.with_later(error),
            };
            let wait = match verdict {
                RetryVerdict::Wait(wait) => wait,
                RetryVerdict::GiveUp(why) => return Err(why.into_error(failed)),
            };
            let has_runtime = Handle::try_current().is_ok();
            let Some(Ok(over)) = has_runtime.then(|| caught(|| tokio::time::sleep(wait))) else {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "`RetryPolicy::run` has to wait before the next attempt, and here is no tokio runtime with a \
                     timer: call it in a runtime that was built with `enable_all()`",
                )
                .with_source(failed));
            };
            first = Some(failed);
            over.await;
            lost.time = lost.time.saturating_add(wait);
        }
    }
}
