//! A provider that wraps another provider, retries failed requests by a retry policy, and emits an event for each wait.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    RetryPolicy,
    relay::{AfterAttempt, FailedAttempt, relay},
    retry::{RetryVerdict, refusal},
};
use crate::{
    error::Error,
    provider::{AttemptRecord, EventStream, Provider, Request, StreamEvent, stream_events},
};

/// A provider that wraps another provider and retries the transient failures of this provider.
///
/// The ready providers retry by themselves. Use this provider for providers of your own, or to set one policy for all
/// providers that it wraps: a wrapped provider then makes only one attempt, even if it has a retry policy of its own.
///
/// A call is retried only until the first event of the answer has been passed on. After that, a failure is passed on
/// too (see [`RetryPolicy::after_output`] for the exception). Each wait is reported as [`StreamEvent::Retrying`] before
/// it begins. Dropping the stream ends the wait at once.
///
/// When the provider gives up, the error is the first failure, with [all later ones](crate::error::Error::later) and
/// the reason for giving up.
///
/// ```
/// use harness::{Agent, policy::{RetryPolicy, RetryProvider}, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
/// # .block_on(async {
/// let model = ScriptedProvider::new([reply().overloaded(), reply().text("Here I am.")]);
/// let provider = RetryProvider::new(model, RetryPolicy::default());
/// let reply = Agent::builder(provider).build()?.run("Are you there?").await?;
/// assert_eq!(reply.text(), "Here I am.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RetryProvider<P> {
    inner: P,
    retry: RetryLoop,
}

impl<P: Provider> RetryProvider<P> {
    /// Creates a provider that sends requests to `inner`, with as many attempts as the policy allows.
    pub fn new(inner: P, policy: RetryPolicy) -> Self {
        Self { inner, retry: RetryLoop::new(policy) }
    }

    /// Uses this seed for the random part of the waits, so that the waits are reproducible.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.retry.seeded = Some(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))));
        self
    }
}

impl<P: Provider> Provider for RetryProvider<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.inner)
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        self.retry.stream(request, |request| self.inner.stream(request))
    }
}

/// Makes the attempts of a call by a retry policy. Used by every provider that retries.
#[derive(Clone, Debug)]
pub struct RetryLoop {
    /// The policy: which failures are retried, and after which waits.
    pub policy: RetryPolicy,
    /// The seeded random source, if the waits have to be reproducible.
    seeded: Option<Arc<Mutex<fastrand::Rng>>>,
}

impl RetryLoop {
    /// Creates a loop that retries by this policy.
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, seeded: None }
    }

    fn draw(&self) -> f64 {
        match &self.seeded {
            Some(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).f64(),
            None => fastrand::f64(),
        }
    }

    /// Sends the request with `open`, and retries as the policy decides. If a wrapper already retries, or if the policy
    /// allows only one attempt, `open` is called once and its events are passed on unchanged.
    pub fn stream<'a>(
        &'a self,
        request: Request<'a>,
        open: impl Fn(Request<'a>) -> EventStream<'a> + Send + 'a,
    ) -> EventStream<'a> {
        if request.is_retried_outside() {
            return open(request);
        }
        let policy = &self.policy;
        let request = request.with_outer_retries().with_reconnects(policy.reconnect);
        if policy.attempts <= 1 {
            return open(request);
        }
        let then =
            if policy.after_output { AfterAttempt::Something } else { AfterAttempt::Nothing };
        stream_events(move |speaker| async move {
            let mut first: Option<Error> = None;
            loop {
                let attempt = AttemptRecord::begin(&request);
                let tried = relay(open(request.clone()), None, then, &speaker).await;
                let Err(FailedAttempt { error, said }) = tried else { return };
                request.failed(attempt.failed());
                let (call, run) = request.lost();
                let verdict = policy.decide(&error, call, run, self.draw());
                let (cause, refused) = (error.to_string(), refusal(&error));
                let failed = match first.take() {
                    None => error,
                    Some(first) => first.with_later(error),
                };
                let wait = match verdict {
                    RetryVerdict::Wait(wait) => wait,
                    RetryVerdict::GiveUp(why) => {
                        return speaker.send(Err(why.into_error(failed))).await;
                    }
                };
                first = Some(failed);
                if said {
                    let cause = cause.clone();
                    speaker.send(Ok(StreamEvent::Discarded { cause })).await;
                }
                let (attempt, of) = (call.attempts.saturating_add(1), policy.tries(call, run));
                let event = StreamEvent::Retrying { attempt, of, wait, refused, cause };
                // The timer starts before the event is sent, so that the wait does not depend on when the reader takes
                // the event.
                let over = tokio::time::sleep(wait);
                speaker.send(Ok(event)).await;
                over.await;
                request.waited(wait);
            }
        })
    }
}

impl<P: Provider> fmt::Debug for RetryProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryProvider")
            .field("provider", &self.inner.name())
            .field("model", &self.inner.model())
            .field("policy", &self.retry.policy)
            .finish_non_exhaustive()
    }
}
