//! A provider that bounds how many requests are in flight, and slows down when the server says so.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::StreamExt as _;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use super::pace::Pace;
use crate::{
    error::Error,
    provider::{EventStream, Provider, Request, speak},
};

/// A provider that lets so many requests be in flight at the same time, for all who share it.
/// When the server refuses one because there are too many (429, or overloaded), nobody starts
/// until the time that it asked for is over, and from then on one after the other, with a gap
/// that closes as answers come.
///
/// A clone is the same provider: give one to each agent. Put it inside a
/// [`RetryProvider`](super::RetryProvider), so that a call that waits for its next try holds no
/// place.
///
/// ```
/// use harness::{
///     Agent,
///     policy::{RetryPolicy, RetryProvider, ThrottledProvider},
///     testing::ScriptedProvider,
/// };
///
/// # fn main() -> Result<(), harness::Error> {
/// let shared = ThrottledProvider::new(ScriptedProvider::new([]), 8);
/// let agents: Vec<Agent> = (0..50)
///     .map(|_| {
///         let provider = RetryProvider::new(shared.clone(), RetryPolicy::default());
///         Agent::builder(provider).build()
///     })
///     .collect::<Result<_, _>>()?;
/// # let _ = agents;
/// # Ok(())
/// # }
/// ```
pub struct ThrottledProvider<P>(Arc<Inner<P>>);

struct Inner<P> {
    provider: P,
    at_once: usize,
    places: Semaphore,
    pace: Mutex<Pace>,
}

impl<P: Provider> ThrottledProvider<P> {
    /// A provider that asks this one, with at most so many requests in flight; 0 counts as 1.
    pub fn new(provider: P, at_once: usize) -> Self {
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        let pace = Mutex::new(Pace::new(Instant::now()));
        Self(Arc::new(Inner { provider, at_once, places: Semaphore::new(at_once), pace }))
    }

    /// How many requests are in flight, or wait for their start with a place of their own.
    pub fn in_flight(&self) -> usize {
        self.0.at_once.saturating_sub(self.0.places.available_permits())
    }
}

impl<P> Inner<P> {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a start, and for another one if the server has refused somebody meanwhile.
    async fn start(&self) -> Instant {
        loop {
            let start = self.pace().next_start(Instant::now());
            sleep_until(start).await;
            let now = Instant::now();
            if self.pace().holds(now) {
                return now;
            }
        }
    }
}

impl<P: Provider> Provider for ThrottledProvider<P> {
    fn name(&self) -> &str {
        self.0.provider.name()
    }

    fn model(&self) -> &str {
        self.0.provider.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        speak(move |speaker| async move {
            let shared = &*self.0;
            // It is never closed; if it were, there would be no bound to keep.
            let _place = shared.places.acquire().await;
            let started = shared.start().await;
            let mut stream = shared.provider.stream(request);
            let mut answered = false;
            while let Some(item) = stream.next().await {
                match &item {
                    Err(error) if is_too_much(error) => {
                        shared.pace().refused(started, Instant::now(), error.retry_after());
                    }
                    Ok(event) if !answered && event.is_said() => {
                        answered = true;
                        shared.pace().answered();
                    }
                    Ok(_) | Err(_) => {}
                }
                speaker.say(item).await;
            }
        })
    }
}

/// Whether the server says that it gets too much at once.
fn is_too_much(error: &Error) -> bool {
    let code = error.last().code().unwrap_or_default();
    error.is_retryable()
        && (matches!(error.last().status(), Some(429 | 529))
            || ["rate_limit", "overloaded", "slow_down"].iter().any(|word| code.contains(word)))
}

impl<P> Clone for ThrottledProvider<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: Provider> fmt::Debug for ThrottledProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledProvider")
            .field("provider", &self.name())
            .field("model", &self.model())
            .field("in_flight", &self.in_flight())
            .field("at_once", &self.0.at_once)
            .finish_non_exhaustive()
    }
}
